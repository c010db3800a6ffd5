import { z } from 'zod'
import { jsonObject, name } from './scalars.ts'

export const MEDIA_TYPES = {
  plugin: 'application/vnd.tenon.plugin.v1',
  pluginLayer: 'application/vnd.tenon.plugin.layer.v1.tar+gzip',
  script: 'application/vnd.tenon.script.v1',
  source: 'application/vnd.tenon.source.v1',
  folderLayer: 'application/vnd.tenon.folder.layer.v1.tar+gzip',
  empty: 'application/vnd.oci.empty.v1+json',
} as const

/** `plugin.json` at the root of a plugin's layer. */
export const pluginDescription = z.object({
  name,
  version: z.string().max(64),
  operations: z.array(
    z.enum(['build', 'plan', 'deploy', 'destroy', 'status', 'logs', 'debug', 'sync', 'sandbox']),
  ),
  /** `node`: an ES module with a default export of type Plugin. `shell`: one executable per operation. */
  kind: z.enum(['node', 'shell']),
  entry: z.string().max(255),
  configSchema: jsonObject.default({}),
})
export type PluginDescription = z.infer<typeof pluginDescription>
