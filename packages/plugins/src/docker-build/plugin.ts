import { pluginDescription } from '@tenon/protocol'
import { imageOperations } from '../deploy/image-component.ts'
import type { Plugin } from '../sdk/plugin.ts'
import { build } from './build.ts'
import description from './plugin.json' with { type: 'json' }

/** The component type `docker_build`: an image made from a Dockerfile. */
const dockerBuildPlugin: Plugin = {
  description: pluginDescription.parse(description),
  operations: { build, ...imageOperations },
}
export default dockerBuildPlugin
