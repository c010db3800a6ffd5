import { pluginDescription } from '@tenon/protocol'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import { deploy, destroy } from './deploy.ts'
import { plan, status } from './plan.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `terraform_module`: a module with the providers it needs. */
const terraformModulePlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build, plan, deploy, destroy, status },
}
export default terraformModulePlugin
