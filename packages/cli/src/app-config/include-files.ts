import { readFile, realpath, stat } from 'node:fs/promises'
import { relative, resolve, sep } from 'node:path'
import type { Json } from '@tenon/core'
import { fieldName, hasField, walkFields } from './check-file.ts'
import { fetchValue, isRemote } from './fetch-value.ts'
import type { Path } from './locate.ts'
import { findRegardlessOfCase, placesOfPaths } from './places-of-paths.ts'
import type { FileKind } from './schemas/kinds.ts'
import { MOST_BYTES, type TomlFile } from './toml-file.ts'

/** Puts content in the place of values that say where it is: `./values.yaml`, a `path`, an address. */
export async function includeFiles(folder: string, toml: TomlFile, kind: FileKind): Promise<void> {
  if (!hasField(kind.schema, (meta) => meta.file)) return
  const found: Named[] = []
  walkFields(kind.schema, toml.value, ({ path, meta, value }) => {
    if (!meta.file || typeof value !== 'string' || !namesFile(path, value)) return
    if (meta.atBuild && /^https?:/.test(value))
      toml.warning(
        path,
        `${fieldName(path)} is fetched from ${value} when it is built, and not looked into here`,
      )
    else found.push({ path: [...path], value, mayMiss: meta.mayMiss === true })
  })
  for (const named of found) {
    if (isRemote(named.value)) await includeRemote(toml, named.path, named.value)
    else await include(folder, toml, named)
  }
}

interface Named {
  path: Path
  value: string
  mayMiss: boolean
}

const EXPECTED = 'text, or a file of the app’s folder such as ./values.yaml'

function namesFile(path: Path, value: string): boolean {
  if (value.includes('\n')) return false
  return path.at(-1) === 'path' || isRemote(value) || /^(?:\.{1,2}\/|file:\/\/)\S+$/.test(value)
}

async function includeRemote(toml: TomlFile, path: Path, value: string): Promise<void> {
  const name = fieldName(path)
  const fetched = await fetchValue(value)
  if (!fetched.ok) return toml.problem(path, `${name} cannot be had from ${value}: ${fetched.why}`, EXPECTED)
  const text = asText(fetched.bytes)
  if (text === undefined) return toml.problem(path, `${name} is not UTF-8 text: ${value}`, 'a file in UTF-8')
  toml.fetched[name] = { from: value, pin: fetched.pin }
  put(toml, path, text, value)
}

async function include(folder: string, toml: TomlFile, { path, value, mayMiss }: Named): Promise<void> {
  const name = fieldName(path)
  const root = await realpath(folder)
  const file = await findNamed(folder, toml, path, value)
  if (file !== undefined) {
    if (!file.startsWith(root + sep))
      return toml.problem(path, `${name} lies outside of the app’s folder`, EXPECTED)
    const found = await stat(file)
    if (!found.isFile()) return toml.problem(path, `${name} names no file: ${value}`, EXPECTED)
    if (found.size > MOST_BYTES)
      return toml.problem(path, `${name} names a file that is too large`, 'at most 1 MB')
    const text = asText(await readFile(file))
    if (text === undefined)
      return toml.problem(path, `${name} names a file that is not UTF-8 text`, 'a file in UTF-8')
    return put(toml, path, text, relative(root, file))
  }
  // The chart itself may have it: what the app's folder does not have is looked for there when it is deployed.
  if (path.at(-1) === 'path' && CHART_SOURCES.some((field) => toml.value[field] !== undefined)) return
  if (mayMiss) return toml.warning(path, `${name} names no file: ${value}; a role cannot be made from it`)
  toml.problem(path, `${name} names no file: ${value}`, EXPECTED)
}

async function findNamed(
  folder: string,
  toml: TomlFile,
  path: Path,
  value: string,
): Promise<string | undefined> {
  const wanted = value.replace(/^file:\/\//, '')
  const places = placesOfPaths(folder, toml.file)
  for (const from of places) {
    const file = await realpath(resolve(from, wanted)).catch(() => undefined)
    if (file !== undefined) return file
  }
  for (const from of places) {
    const file = await findRegardlessOfCase(from, wanted)
    if (file === undefined) continue
    toml.warning(path, `${fieldName(path)} names ${value}, but the file is ${relative(folder, file)}`)
    return realpath(file)
  }
  return undefined
}

const CHART_SOURCES = ['helm_repo', 'public_repo', 'connected_repo', 'source']

function asText(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return text.includes('\0') ? undefined : text
  } catch (cause) {
    if (cause instanceof TypeError) return undefined
    throw cause
  }
}

/** What stood under `path` is content now, and is called so. */
function put(toml: TomlFile, path: Path, text: string, origin: string): void {
  let at = toml.value as { [key: string]: Json }
  for (const key of path.slice(0, -1)) at = at[key] as { [key: string]: Json }
  const key = path.at(-1)!
  if (key === 'path') delete at[key]
  const place = key === 'path' ? 'contents' : key
  at[place] = text
  toml.origins.set([...path.slice(0, -1), place].join('\u0000'), origin)
}
