import { realpath } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import type { ComponentSource, Json } from '@tenon/core'
import { isCheckoutOf, type Checkout } from './git-checkout.ts'
import { isFolder, type TomlFile } from './toml-file.ts'

export interface FoundSource {
  source: ComponentSource
  /** For a folder: where it is. */
  folder?: string
}

/** Where a component or step gets its files from; undefined when it needs none, or when that was a problem. */
export async function findSource(
  appFolder: string,
  checkout: Checkout | undefined,
  toml: TomlFile,
  value: { [key: string]: Json },
): Promise<FoundSource | undefined> {
  const named = value['source']
  if (typeof named === 'string') return findFolder(appFolder, checkout, toml, named)
  const connected = value['connected_repo'] as Repo | undefined
  if (connected && checkout && isCheckoutOf(checkout, connected.repo)) {
    const folder = resolve(checkout.folder, connected.directory ?? '.')
    const real = await realpath(folder).catch(() => undefined)
    if (real !== undefined && isWithin(real, checkout.folder) && (await isFolder(real)))
      return { source: { kind: 'folder' }, folder: real }
    toml.problem(
      ['connected_repo', 'directory'],
      `connected_repo.directory names no folder of this checkout: ${connected.directory ?? '.'}`,
      `a folder in ${checkout.folder}`,
    )
    return undefined
  }
  const repo = connected ?? (value['public_repo'] as Repo | undefined)
  if (!repo) return undefined
  return { source: gitSource(repo) }
}

interface Repo {
  repo: string
  branch?: string
  directory?: string
}

export function gitSource({ repo, branch = 'main', directory = '.' }: Repo): ComponentSource {
  return { kind: 'git', repo, ref: branch, directory }
}

/**
 * The folder that `source` names: relative to the component's file, else to the app's folder. It must lie in the
 * app's repository (or its folder), so that a config taken from elsewhere cannot have a home folder uploaded.
 */
async function findFolder(
  appFolder: string,
  checkout: Checkout | undefined,
  toml: TomlFile,
  source: string,
): Promise<FoundSource | undefined> {
  const candidates = [resolve(appFolder, dirname(toml.file), source), resolve(appFolder, source)]
  for (const candidate of candidates) {
    if (!(await isFolder(candidate))) continue
    const folder = await realpath(candidate)
    const within = checkout?.folder ?? (await realpath(appFolder))
    if (isWithin(folder, within)) return { source: { kind: 'folder' }, folder }
    toml.problem(['source'], `source lies outside of ${within}`, 'a folder of the same repository')
    return undefined
  }
  toml.problem(['source'], `source names no folder: ${source}`, `a folder such as ${join('src', 'web')}`)
  return undefined
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder + sep)
}
