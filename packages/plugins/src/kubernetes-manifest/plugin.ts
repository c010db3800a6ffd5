import { pluginDescription } from '@tenon/protocol'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import { debug, deploy, destroy, logs, plan, status } from './operations.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `kubernetes_manifest`: manifests, or the sources of a kustomization. */
const kubernetesManifestPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build, plan, deploy, destroy, status, logs, debug },
}
export default kubernetesManifestPlugin
