import { pluginDescription } from '@tenon/protocol'
import type { Plugin } from '../sdk/plugin.ts'
import description from './plugin.json' with { type: 'json' }
import { deploy, destroy } from './sync-secrets.ts'

/** Keeps secrets of the install as Kubernetes Secrets, for what reads them there. No component type of its own. */
const kubernetesSecretsPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { deploy, destroy },
}
export default kubernetesSecretsPlugin
