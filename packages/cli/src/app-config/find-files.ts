import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expectOneOf, nearest } from './nearest.ts'
import type { Findings } from './problem.ts'
import { FOLDERS, TOP_FILES } from './schemas/kinds.ts'

export interface ConfigFile {
  /** Relative to the app's folder, with `/`. */
  file: string
  kind: string
  many?: { kind: string; lists: readonly string[] }
}

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
  if (!known && meant === undefined) return []
  const files = (await readdir(join(folder, name))).filter((file) => file.endsWith('.toml')).toSorted()
  if (known) {
    const { each, many } = known
    return files.map((file) => ({ file: `${name}/${file}`, kind: each, ...(many ? { many } : {}) }))
  }
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
