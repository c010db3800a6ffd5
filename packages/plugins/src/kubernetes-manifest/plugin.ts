import { pluginDescription } from '@tenon/protocol'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import { deploy, destroy, plan, status } from './operations.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `kubernetes_manifest`: manifests, or the sources of a kustomization. */
const kubernetesManifestPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build, plan, deploy, destroy, status },
}
export default kubernetesManifestPlugin
