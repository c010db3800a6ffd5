import { pluginDescription } from '@tenon/protocol'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `plugin`: a vendor's own component type, from a folder with plugin.json. */
const pluginOfPlugins: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build },
}
export default pluginOfPlugins
