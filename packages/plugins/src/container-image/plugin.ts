import { pluginDescription } from '@tenon/protocol'
import { imageOperations } from '../deploy/image-component.ts'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `container_image`: an image that exists elsewhere, mirrored by digest. */
const containerImagePlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build, ...imageOperations },
}
export default containerImagePlugin
