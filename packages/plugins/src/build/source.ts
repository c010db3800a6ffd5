import { lstat, mkdir, realpath, rm } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Json } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { cloneRepository } from './clone.ts'
import type { BuildSource, GitSource } from './config.ts'
import { settleLinks } from './settle-links.ts'

export interface OpenedSource {
  /** What the component is built from. */
  folder: string
  /** All that came along: the repository around the folder, or the folder itself. */
  root: string
  /** For the result: which commit it was. Null when a person sent the files. */
  record: { [key: string]: Json } | null
}

/** The folder that was sent, or the repository at its ref, as files of this job; links lead nowhere outside. */
export async function openSource(
  context: OperationContext,
  source: BuildSource | null,
  links: 'settled' | 'kept' = 'settled',
): Promise<OpenedSource> {
  const isSent = context.operation.artifacts.some(({ name }) => name === 'source')
  if (isSent) {
    const folder = await context.artifact('source', { artifactType: MEDIA_TYPES.source })
    await settleLinks(folder, folder, links)
    context.log('the source is a folder that was sent')
    return { folder, root: folder, record: null }
  }
  if (source?.kind !== 'git') {
    const remedy = 'Name a folder or a repository for it, and send the folder with `tenon builds create`.'
    throw new PluginError('source_missing', 'The component has no source to build from.', remedy)
  }
  const root = join(context.workDir, 'repository')
  await mkdir(root)
  const { url, commit } = await fetchRepository(context, source, root)
  const folder = await folderInside(root, source.directory)
  await settleLinks(folder, root, links)
  return { folder, root, record: { repo: url, ref: source.ref, commit } }
}

/** The files of a repository at its ref, in an empty folder. */
export async function fetchRepository(
  context: OperationContext,
  source: GitSource,
  root: string,
): Promise<{ url: string; commit: string }> {
  const found = await cloneRepository(context, source, root)
  await rm(join(root, '.git'), { recursive: true, force: true })
  return found
}

/** A folder inside another, by a path that somebody wrote; neither `..` nor a link may lead out of it. */
export async function folderInside(root: string, directory: string): Promise<string> {
  const steps = directory.split('/').filter((step) => step !== '' && step !== '.')
  if (directory.startsWith('/') || steps.includes('..') || directory.includes('\0')) {
    const remedy = 'Write it relative to the root of the source, without "..".'
    throw new PluginError(
      'source_refused',
      `The folder ${JSON.stringify(directory)} leads out of the source.`,
      remedy,
    )
  }
  const top = await realpath(root)
  const path = await realpath(join(top, ...steps)).catch(() => undefined)
  const isFolder = path !== undefined && (await lstat(path)).isDirectory()
  if (path === undefined || !isFolder) {
    const message = `The source has no folder ${JSON.stringify(directory)}.`
    throw new PluginError('source_unreachable', message, 'Correct `directory` of the component, or the ref.')
  }
  if (path === top || path.startsWith(top + sep)) return path
  const remedy = 'Replace the link by what it points to.'
  throw new PluginError(
    'source_refused',
    `The folder ${JSON.stringify(directory)} is a link out of the source.`,
    remedy,
  )
}
