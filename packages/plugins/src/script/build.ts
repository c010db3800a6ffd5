import { sizeWords } from '@tenon/core'
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { packFolderToFile, pushArtifact } from '@tenon/oci'
import { folderTitle, MEDIA_TYPES, repository } from '@tenon/protocol'
import { z } from 'zod'
import { settleLinks } from '../build/settle-links.ts'
import { readConfig } from '../sdk/config.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { openVendorRegistry } from '../sdk/registry.ts'

const buildConfig = z.looseObject({ repository })

const SCRIPTS = ['deploy.sh', 'destroy.sh', 'status.sh']

/** Turns the source folder into an artifact of the vendor registry; the same source gives the same digest. */
export async function build(context: OperationContext): Promise<OperationResult> {
  const config = readConfig(context.operation, buildConfig)
  const source = await context.artifact('source')
  await settleLinks(source, source)
  await checkScripts(source)
  const file = join(context.workDir, 'layer.tar.gz')
  const layer = await packFolderToFile(source, file)
  const { client } = await openVendorRegistry({ ...context, now: Date.now })
  const pushed = await pushArtifact({
    client,
    repository: config.repository,
    artifactType: MEDIA_TYPES.script,
    layers: [{ mediaType: MEDIA_TYPES.folderLayer, annotations: folderTitle(MEDIA_TYPES.script), file }],
    signal: context.signal,
  })
  context.log(`pushed ${config.repository}@${pushed.digest}, ${sizeWords(layer.size)}`)
  return {
    ok: true,
    message: `built ${pushed.digest}`,
    data: {
      digest: pushed.digest,
      size: layer.size,
      repository: config.repository,
      mediaType: MEDIA_TYPES.script,
    },
  }
}

async function checkScripts(folder: string): Promise<void> {
  const isThere = await Promise.all(
    SCRIPTS.map((script) =>
      lstat(join(folder, script)).then(
        (stat) => stat.isFile(),
        () => false,
      ),
    ),
  )
  const missing = SCRIPTS.filter((_script, index) => !isThere[index])
  if (missing.length === 0) return
  const message = `The source folder lacks ${missing.join(', ')}.`
  throw new PluginError('artifact_invalid', message, 'Add the script, even if it only says "exit 0".')
}
