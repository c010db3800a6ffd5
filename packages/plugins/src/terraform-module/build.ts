import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Json } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { z } from 'zod'
import { gatherClosure } from '../build/closure.ts'
import { buildConfig } from '../build/config.ts'
import { built, publishFolder, vendorClient } from '../build/publish.ts'
import { settleLinks } from '../build/settle-links.ts'
import { openSource, type OpenedSource } from '../build/source.ts'
import { readConfig } from '../sdk/config.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { shownEngine } from './engine.ts'
import { initModule } from './init-module.ts'
import { collectProviders } from './providers.ts'

const config = buildConfig(z.looseObject({ terraform_version: z.string().optional() }))

/** What one job unpacks at most. */
const MAX_BYTES = 2 * 1024 * 1024 * 1024

/**
 * Packs a module so that `init` needs no network: `module/` is its tree with lock file and fetched modules,
 * `providers/` a filesystem mirror, and `tenon.json` says where in the tree the module is.
 */
export async function build(context: OperationContext): Promise<OperationResult> {
  const given = readConfig(context.operation, config)
  const { repository } = given
  const source = await openSource(context, given.source)
  const initialized = await initModule(context, source.folder)
  const artifact = join(context.workDir, 'artifact')
  await mkdir(artifact)
  const { providers, platform } = await collectProviders(context, source.folder, join(artifact, 'providers'))
  const module = await moveTree(source, initialized.reachesOut, artifact)
  await writeFile(join(artifact, 'tenon.json'), `${JSON.stringify({ module, providers: 'providers' })}\n`)
  const client = await vendorClient(context)
  const closure = await gatherClosure(context, { client, repository, found: [], declared: given.images })
  const published = await publishFolder(context, {
    client,
    repository,
    folder: artifact,
    artifactType: MEDIA_TYPES.terraformModule,
    closure,
    ignore: (path) => isLeftOut(path, initialized.hasRemoteModules),
    maxBytes: MAX_BYTES,
  })
  return built(published, {
    source: source.record,
    module,
    providers: providers as unknown as Json,
    platform,
    engine: shownEngine(initialized.engine),
    closure: closure as unknown as Json,
  })
}

/** A module that uses others beside it travels with all of its source, so that their paths stay true. */
async function moveTree(source: OpenedSource, reachesOut: boolean, artifact: string): Promise<string> {
  const { folder, root } = source
  if (reachesOut && root === folder) {
    const message = 'The module uses modules outside of its source.'
    throw new PluginError(
      'source_refused',
      message,
      'Send the folder that holds them all, or name the repository.',
    )
  }
  if (reachesOut) await settleLinks(root, root)
  const path = reachesOut ? relative(root, folder) : ''
  await rename(reachesOut ? root : folder, join(artifact, 'module'))
  return path === '' ? 'module' : `module/${path}`
}

/** Providers lie in the mirror; state and what git keeps are no part of a module. */
function isLeftOut(path: string, hasRemoteModules: boolean): boolean {
  if (/(?:^|\/)\.git$|(?:^|\/)terraform\.tfstate(?:\.backup|\.d)?$|\.tfstate$/.test(path)) return true
  const [, inside] = /(?:^|\/)\.terraform\/(.+)$/.exec(path) ?? []
  if (inside === undefined) return !hasRemoteModules && /(?:^|\/)\.terraform$/.test(path)
  return !(hasRemoteModules && /^modules(?:\/|$)/.test(inside))
}
