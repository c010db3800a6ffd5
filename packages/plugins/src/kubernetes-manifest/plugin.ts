import { pluginDescription } from '@tenon/protocol'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `kubernetes_manifest`: manifests or a kustomization. */
const kubernetesManifestPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build },
}
export default kubernetesManifestPlugin
