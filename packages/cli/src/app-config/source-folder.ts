import { readdir, realpath } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import type { ComponentSource, Json } from '@tenon/core'
import { isCheckoutOf, type Checkout } from './git-checkout.ts'
import { placesOfPaths } from './places-of-paths.ts'
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
  if (typeof named === 'string') return findFolder({ appFolder, checkout, toml, value }, named)
  const connected = value['connected_repo'] as Repo | undefined
  if (connected && checkout && isCheckoutOf(checkout, connected.repo)) {
    const folder = resolve(checkout.folder, connected.directory ?? '.')
    const real = await realpath(folder).catch(() => undefined)
    if (real !== undefined && isWithin(real, checkout.folder) && (await isFolder(real))) {
      if (value['type'] === 'script') await checkScripts(toml, ['connected_repo', 'directory'], real)
      return { source: { kind: 'folder' }, folder: real }
    }
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

interface Asked {
  appFolder: string
  checkout: Checkout | undefined
  toml: TomlFile
  value: { [key: string]: Json }
}

const SCRIPTS = ['deploy.sh', 'destroy.sh', 'status.sh']

/** As the build does, which refuses a source without them. */
async function checkScripts(toml: TomlFile, path: string[], folder: string): Promise<void> {
  const there = await readdir(folder)
  for (const script of SCRIPTS.filter((each) => !there.includes(each)))
    toml.problem(path, `the source has no ${script}`, 'the script, even if it only says "exit 0"')
}

/**
 * The folder that `source` names, from where paths in the component's file start. It must lie in the app's repository
 * (or its folder), so that a config taken from elsewhere cannot have a home folder uploaded.
 */
async function findFolder(
  { appFolder, checkout, toml, value }: Asked,
  source: string,
): Promise<FoundSource | undefined> {
  const places = placesOfPaths(appFolder, toml.file)
  const isNested = toml.file.split('/').length > 2
  for (const place of places) {
    const candidate = resolve(place, source)
    // `.` beside a source means that folder, not the one of all components.
    if ((isNested && candidate === places[0]) || !(await isFolder(candidate))) continue
    const folder = await realpath(candidate)
    const within = checkout?.folder ?? (await realpath(appFolder))
    if (isWithin(folder, within)) {
      if (value['type'] === 'script') await checkScripts(toml, ['source'], folder)
      return { source: { kind: 'folder' }, folder }
    }
    toml.problem(['source'], `source lies outside of ${within}`, 'a folder of the same repository')
    return undefined
  }
  toml.problem(['source'], `source names no folder: ${source}`, `a folder such as ${join('src', 'web')}`)
  return undefined
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder + sep)
}
