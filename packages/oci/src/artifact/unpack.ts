import { randomBytes } from 'node:crypto'
import { mkdir, open, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { PassThrough, Transform } from 'node:stream'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { createTarDecoder } from 'modern-tar'
import type { ParsedTarEntry } from 'modern-tar'
import { isOciError, OciError } from '../errors.ts'
import { errnoOf } from '../storage/durable-file.ts'
import { leadsOut } from './links.ts'

export interface UnpackLimits {
  maxEntries: number
  /** Of the unpacked archive, headers included. */
  maxBytes: number
  /** Symbolic links that stay inside are made, after all files; otherwise every link is refused. */
  links?: 'inside'
}

export const defaultUnpackLimits: UnpackLimits = { maxEntries: 50_000, maxBytes: 2 * 1024 * 1024 * 1024 }

/**
 * Unpacks an untrusted archive into `dir`, which must not exist or be empty. It holds files and folders
 * only, unless `links` says otherwise: links of any kind are refused, so no name can lead out of it. On failure nothing is left.
 */
export const unpackTarGz = (
  source: Readable,
  dir: string,
  limits: UnpackLimits = defaultUnpackLimits,
): Promise<{ entries: number; bytes: number }> => unpackWith(createGunzip(), source, dir, limits)

/** The same for an archive that is not compressed. */
export const unpackTar = (
  source: Readable,
  dir: string,
  limits: UnpackLimits = defaultUnpackLimits,
): Promise<{ entries: number; bytes: number }> => unpackWith(new PassThrough(), source, dir, limits)

const unpackWith = async (
  decoder: Transform,
  source: Readable,
  dir: string,
  limits: UnpackLimits,
): Promise<{ entries: number; bytes: number }> => {
  const target = resolve(dir)
  const partial = `${target}.partial-${randomBytes(6).toString('hex')}`
  await mkdir(dirname(target), { recursive: true })
  await mkdir(partial)
  try {
    const counts = await unpackInto(decoder, source, partial, limits)
    await rename(partial, target)
    return counts
  } catch (error) {
    source.destroy()
    await rm(partial, { recursive: true, force: true })
    throw refusal(error, dir)
  }
}

const unpackInto = async (
  decompress: Transform,
  source: Readable,
  folder: string,
  limits: UnpackLimits,
): Promise<{ entries: number; bytes: number }> => {
  const counter = byteLimit(limits.maxBytes)
  const decoder = createTarDecoder({ strict: true })
  const stop = new AbortController()
  const feed = pipeline(source, decompress, counter.stream, toWeb(decoder.writable), {
    signal: stop.signal,
  })
  // The reading side fails with the reason; this promise is awaited below all the same.
  feed.catch(() => {})
  let entries = 0
  const links = new Map<string, string>()
  const read = async (): Promise<void> => {
    for await (const entry of decoder.readable) {
      entries++
      if (entries > limits.maxEntries) throw refuse(`it has more than ${limits.maxEntries} entries`)
      if (limits.links === 'inside' && entry.header.type === 'symlink') await noteLink(links, entry)
      else await writeEntry(folder, entry)
    }
  }
  const reading = read().catch((error: unknown) => {
    stop.abort(error)
    throw error
  })
  const [fed, done] = await Promise.allSettled([feed, reading])
  const reasons = [fed, done].flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
  if (reasons.length > 0) throw reasons.find((reason) => isOciError(reason)) ?? reasons.at(-1)
  await makeLinks(folder, links)
  return { entries, bytes: counter.seen() }
}

const writeEntry = async (folder: string, entry: ParsedTarEntry): Promise<void> => {
  const { name, type = 'file', mode = 0o644 } = entry.header
  const inside = safePath(name)
  if (type === 'directory') {
    await entry.body.cancel()
    if (inside !== '') await mkdir(join(folder, inside), { recursive: true })
    return
  }
  if (type !== 'file') throw refuse(`${show(name)} is a ${type}; only files and folders are allowed`)
  if (inside === '') throw refuse(`${show(name)} names no file`)
  const file = join(folder, inside)
  await mkdir(dirname(file), { recursive: true })
  const handle = await open(file, 'wx')
  try {
    for await (const chunk of entry.body) await handle.appendFile(chunk)
    await handle.chmod((mode & 0o111) === 0 ? 0o644 : 0o755)
  } finally {
    await handle.close()
  }
}

const noteLink = async (links: Map<string, string>, { header, body }: ParsedTarEntry): Promise<void> => {
  await body.cancel()
  const inside = safePath(header.name)
  const target = header.linkname ?? ''
  if (inside === '' || links.has(inside)) throw refuse(`${show(header.name)} names a link twice, or nothing`)
  if (leadsOut(inside, target)) throw refuse(`${show(header.name)} is a link out of the folder`)
  links.set(inside, target)
}

/** Last, when everything else lies where its name says; nothing may lie behind a link. */
const makeLinks = async (folder: string, links: ReadonlyMap<string, string>): Promise<void> => {
  for (const path of links.keys())
    for (let above = dirname(path); above !== '.'; above = dirname(above))
      if (links.has(above)) throw refuse(`${show(path)} lies behind a link`)
  for (const [path, target] of links) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await symlink(target, join(folder, path))
  }
}

/** Pure: the name as a path inside the folder, or a refusal. `./` and empty steps are harmless. */
export const safePath = (name: string): string => {
  if (name.startsWith('/') || /^[a-zA-Z]:/.test(name)) throw refuse(`${show(name)} is an absolute path`)
  if (name.includes('\0') || name.includes('\\')) throw refuse(`${show(name)} holds a forbidden character`)
  const steps = name.split('/').filter((step) => step !== '' && step !== '.')
  if (steps.includes('..')) throw refuse(`${show(name)} leads out of the folder`)
  return steps.join('/')
}

const byteLimit = (limit: number) => {
  let seen = 0
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.byteLength
      if (seen > limit) done(refuse(`it unpacks to more than ${limit} bytes`))
      else done(null, chunk)
    },
  })
  return { stream, seen: () => seen }
}

/** `pipeline` takes web streams as they are; only the types of Node and the DOM disagree. */
const toWeb = (stream: WritableStream<Uint8Array>): Writable => stream as unknown as Writable

const refuse = (why: string): OciError => new OciError('ARCHIVE_REFUSED', `The archive is refused: ${why}`)

const refusal = (error: unknown, dir: string): unknown => {
  if (isOciError(error)) return error
  const code = errnoOf(error)
  if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR' || code === 'EISDIR') {
    return new OciError('ARCHIVE_REFUSED', `A name appears twice, or ${dir} is not empty`, { cause: error })
  }
  if (code === 'ENOSPC')
    return new OciError('STORAGE_FULL', 'There is no space left to unpack', { cause: error })
  return new OciError('ARCHIVE_REFUSED', 'The archive is damaged or of another kind', { cause: error })
}

const show = (name: string): string => JSON.stringify(name.slice(0, 120))
