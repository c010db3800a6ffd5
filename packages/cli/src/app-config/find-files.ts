import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expectOneOf, nearest } from './nearest.ts'
import type { Findings } from './problem.ts'
import { FOLDERS, TOP_FILES } from './schemas/kinds.ts'

export interface ConfigFile {
  /** Relative to the app's folder, with `/`. */
  file: string
  kind: string
  many?: { kind: string; lists: readonly string[] }
  /** It lies where sources may lie too: it is of the config only if it looks so. */
  unsure?: true
}

/** The config of a folder that holds a source as well. */
export const CONFIG_BESIDE_SOURCE = 'nuon.toml'

/** The config's files by their kind, in order; a TOML file that is none of them is a problem. */
export async function findFiles(folder: string, findings: Findings): Promise<ConfigFile[]> {
  const found: ConfigFile[] = []
  const entries = await readdir(folder, { withFileTypes: true })
  const isFolder = (entry: Dirent) => Number(entry.isDirectory())
  for (const entry of entries.toSorted((a, b) => isFolder(a) - isFolder(b) || (a.name < b.name ? -1 : 1))) {
    if (entry.isDirectory()) found.push(...(await filesIn(folder, entry.name, findings)))
    else if (entry.name.endsWith('.toml')) {
      const base = entry.name.slice(0, -'.toml'.length)
      const kind = Object.hasOwn(TOP_FILES, base) ? TOP_FILES[base] : undefined
      if (kind !== undefined) found.push({ file: entry.name, kind })
      else unknown(entry.name, base, findings)
    }
  }
  return found
}

async function filesIn(folder: string, name: string, findings: Findings): Promise<ConfigFile[]> {
  const known = Object.hasOwn(FOLDERS, name) ? FOLDERS[name] : undefined
  const meant = known ? undefined : nearest(name, Object.keys(FOLDERS))
  if (known) {
    const { each, many, withSources } = known
    const files: ConfigFile[] = []
    for await (const { file, isNested } of filesBelow(folder, name)) {
      const unsure = isNested && withSources === true && basename(file) !== CONFIG_BESIDE_SOURCE
      files.push({ file, kind: each, ...(many ? { many } : {}), ...(unsure ? { unsure } : {}) })
    }
    return files
  }
  if (meant === undefined) return []
  const files = (await readdir(join(folder, name))).filter((file) => file.endsWith('.toml')).toSorted()
  for (const file of files) {
    const message = `there is no folder ${name} in an app`
    findings.problems.push({
      file: `${name}/${file}`,
      line: 1,
      column: 1,
      message,
      expected: `the folder ${meant}`,
    })
  }
  return []
}

/** TOML files of a folder and of those in it; beside `nuon.toml` there is a source, whose files are its own. */
async function* filesBelow(
  folder: string,
  at: string,
  depth = 0,
): AsyncGenerator<{ file: string; isNested: boolean }> {
  const entries = await readdir(join(folder, at), { withFileTypes: true })
  const isNested = depth > 0
  const files = entries.filter((entry) => !entry.isDirectory() && entry.name.endsWith('.toml'))
  if (isNested && files.some(({ name }) => name === CONFIG_BESIDE_SOURCE))
    return yield { file: `${at}/${CONFIG_BESIDE_SOURCE}`, isNested }
  for (const name of files.map((entry) => entry.name).toSorted()) yield { file: `${at}/${name}`, isNested }
  if (depth === MOST_LEVELS) return
  const below = entries.filter((entry) => entry.isDirectory() && !NEVER_CONFIG.test(entry.name))
  for (const name of below.map((entry) => entry.name).toSorted())
    yield* filesBelow(folder, `${at}/${name}`, depth + 1)
}

const MOST_LEVELS = 8
const NEVER_CONFIG = /^(?:\..*|node_modules|target|vendor|__pycache__)$/

function unknown(file: string, base: string, findings: Findings): void {
  const names = Object.keys(TOP_FILES)
  const expected = Object.hasOwn(FOLDERS, `${base}s`)
    ? `a file in ${base}s/`
    : expectOneOf(base, names).replace(/^([\w-]+)$/, '$1.toml')
  findings.problems.push({
    file,
    line: 1,
    column: 1,
    message: `there is no file ${file} in an app`,
    expected,
  })
}
