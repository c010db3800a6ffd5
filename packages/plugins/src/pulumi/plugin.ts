import { pluginDescription } from '@tenon/protocol'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult, Plugin } from '../sdk/plugin.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `pulumi`: configurations may hold it, and nothing builds or deploys it yet. */
const pulumiPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build: refuse, plan: refuse, deploy: refuse, destroy: refuse, status: refuse },
}
export default pulumiPlugin

async function refuse({ operation }: OperationContext): Promise<OperationResult> {
  const message = `The component ${operation.component ?? ''} is of type pulumi, which is carried in configurations and cannot be deployed yet.`
  throw new PluginError(
    'not_deployable',
    message,
    'Write it as a terraform_module, or as a plugin of your own.',
  )
}
