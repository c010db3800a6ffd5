import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, relative, resolve, sep } from 'node:path'
import type { Json } from '@tenon/core'
import { fieldName, hasField, walkFields } from './check-file.ts'
import type { Path } from './locate.ts'
import type { FileKind } from './schemas/kinds.ts'
import { MOST_BYTES, type TomlFile } from './toml-file.ts'

/** Puts the content of files in the place of values that name them: `./values.yaml`, or a `path`. */
export async function includeFiles(folder: string, toml: TomlFile, kind: FileKind): Promise<void> {
  if (!hasField(kind.schema, (meta) => meta.file)) return
  const found: { path: Path; value: string }[] = []
  walkFields(kind.schema, toml.value, ({ path, meta, value }) => {
    if (meta.file && typeof value === 'string' && namesFile(path, value))
      found.push({ path: [...path], value })
  })
  for (const { path, value } of found) await include(folder, toml, path, value)
}

function namesFile(path: Path, value: string): boolean {
  if (value.includes('\n')) return false
  return path.at(-1) === 'path' || /^(?:\.{1,2}\/|file:\/\/|https?:\/\/|git(?:::|@|\+))\S+$/.test(value)
}

async function include(folder: string, toml: TomlFile, path: Path, value: string): Promise<void> {
  const name = fieldName(path)
  const expected = 'text, or a file of the app’s folder such as ./values.yaml'
  if (/^(?:https?:\/\/|git(?:::|@|\+))/.test(value))
    return toml.problem(path, `${name} names ${value}, which is not fetched`, expected)
  const wanted = value.replace(/^file:\/\//, '')
  const root = await realpath(folder)
  for (const from of [resolve(folder, dirname(toml.file)), folder]) {
    const file = await realpath(resolve(from, wanted)).catch(() => undefined)
    if (file === undefined) continue
    if (!file.startsWith(root + sep))
      return toml.problem(path, `${name} lies outside of the app’s folder`, expected)
    const found = await stat(file)
    if (!found.isFile()) return toml.problem(path, `${name} names no file: ${value}`, expected)
    if (found.size > MOST_BYTES)
      return toml.problem(path, `${name} names a file that is too large`, 'at most 1 MB')
    const text = await readText(file)
    if (text === undefined)
      return toml.problem(path, `${name} names a file that is not UTF-8 text`, 'a file in UTF-8')
    toml.origins.set(path.join('\u0000'), relative(root, file))
    return setAt(toml.value, path, text)
  }
  toml.problem(path, `${name} names no file: ${value}`, expected)
}

async function readText(file: string): Promise<string | undefined> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(file))
    return text.includes('\0') ? undefined : text
  } catch (cause) {
    if (cause instanceof TypeError) return undefined
    throw cause
  }
}

function setAt(value: Json, path: Path, text: string): void {
  let at = value as { [key: string]: Json }
  for (const key of path.slice(0, -1)) at = at[key] as { [key: string]: Json }
  at[path.at(-1)!] = text
}
