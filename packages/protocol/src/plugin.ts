import { OPERATIONS } from '@tenon/core'
import { z } from 'zod'
import { jsonObject, partName } from './scalars.ts'

export const MEDIA_TYPES = {
  plugin: 'application/vnd.tenon.plugin.v1',
  pluginLayer: 'application/vnd.tenon.plugin.layer.v1.tar+gzip',
  script: 'application/vnd.tenon.script.v1',
  action: 'application/vnd.tenon.action.v1',
  source: 'application/vnd.tenon.source.v1',
  terraformModule: 'application/vnd.tenon.terraform-module.v1',
  kubernetesManifest: 'application/vnd.tenon.kubernetes-manifest.v1',
  /** Helm's own, so that plain helm installs what was built. */
  helmConfig: 'application/vnd.cncf.helm.config.v1+json',
  helmChart: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip',
  bundle: 'application/vnd.dev.sigstore.bundle.v0.3+json',
  folderLayer: 'application/vnd.tenon.folder.layer.v1.tar+gzip',
  empty: 'application/vnd.oci.empty.v1+json',
} as const

/** What an artifact's folder is called as one file, where a tool such as oras writes it: the same for every one of its type. */
export const folderTitle = (artifactType: string): { 'org.opencontainers.image.title': string } => ({
  'org.opencontainers.image.title': `${/vnd\.tenon\.(.+)\.v\d+$/.exec(artifactType)?.[1] ?? 'artifact'}.tar.gz`,
})

/** `plugin.json` at the root of a plugin's layer. */
export const pluginDescription = z.object({
  /** The component type that it implements. */
  name: partName,
  version: z.string().max(64),
  operations: z.array(z.enum(OPERATIONS)),
  /** `node`: an ES module with a default export of type Plugin. `shell`: one executable per operation. */
  kind: z.enum(['node', 'shell']),
  entry: z.string().max(255),
  configSchema: jsonObject.default({}),
})
export type PluginDescription = z.infer<typeof pluginDescription>
