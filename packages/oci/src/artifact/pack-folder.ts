import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { readdir, readlink, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Transform } from 'node:stream'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { packTar } from 'modern-tar/fs'
import type { TarSource } from 'modern-tar/fs'
import { OciError } from '../errors.ts'
import type { Digest } from '../reference.ts'
import { leadsOut } from './links.ts'

export interface PackOptions {
  /** Gets the path inside the folder, with `/`; true leaves the file or the whole folder out. */
  ignore?: (path: string) => boolean
  maxBytes?: number
  /** Hears how many bytes more there are of the archive. */
  onBytes?: (count: number) => void
  /** A folder that everything lies in, inside the archive only. */
  prefix?: string
  /** Symbolic links that stay inside are packed as they are; otherwise every link is refused. */
  links?: 'inside'
}

/** The folder as tar.gz in memory; the same files give the same bytes. */
export const packFolder = async (dir: string, options: PackOptions = {}): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of await packFolderStream(dir, options)) {
    chunks.push(chunk as Buffer)
    options.onBytes?.((chunk as Buffer).byteLength)
  }
  return Buffer.concat(chunks)
}

/** The same into a file, for folders that should not be held in memory. */
export const packFolderToFile = async (
  dir: string,
  file: string,
  options: PackOptions = {},
): Promise<{ digest: Digest; size: number }> => {
  const hash = createHash('sha256')
  let size = 0
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      size += chunk.byteLength
      done(null, chunk)
    },
  })
  try {
    await pipeline(await packFolderStream(dir, options), measure, createWriteStream(file, { flags: 'wx' }))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST'))
      await rm(file, { force: true })
    throw error
  }
  return { digest: `sha256:${hash.digest('hex')}`, size }
}

export const packFolderStream = async (dir: string, options: PackOptions = {}): Promise<Readable> => {
  const sources = await listSources(dir, options)
  const packed = new PassThrough()
  // The failure reaches whoever reads `packed`; there is nobody else to tell.
  pipeline(packTar(sources), createGzip({ level: 6 }), neutralGzipHeader(), packed).catch(() => {})
  return packed
}

const DEFAULT_MAX_BYTES = 1024 * 1024 * 1024
/** 1980-01-01, the earliest date every archive tool can show. */
const MTIME = new Date(315_532_800_000)

const listSources = async (dir: string, options: PackOptions): Promise<TarSource[]> => {
  const sources: TarSource[] = []
  let bytes = 0
  const visit = async (inside: string): Promise<void> => {
    const entries = await readdir(join(dir, inside), { withFileTypes: true })
    for (const entry of entries.toSorted((a, b) =>
      Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)),
    )) {
      const path = inside === '' ? entry.name : `${inside}/${entry.name}`
      if (options.ignore?.(path)) continue
      const target = options.prefix === undefined ? path : `${options.prefix}/${path}`
      const owned = { target, mtime: MTIME, uid: 0, gid: 0 }
      if (entry.isDirectory()) {
        sources.push({ type: 'content', content: null, ...owned, target: `${target}/`, mode: 0o755 })
        await visit(path)
      } else if (entry.isFile()) {
        const { mode, size } = await stat(join(dir, path))
        bytes += size
        const packedMode = (mode & 0o111) === 0 ? 0o644 : 0o755
        sources.push({ type: 'file', source: join(dir, path), ...owned, mode: packedMode })
      } else if (entry.isSymbolicLink() && options.links === 'inside') {
        await requireInside(dir, path)
        sources.push({ type: 'file', source: join(dir, path), ...owned, mode: 0o777 })
      } else {
        throw new OciError(
          'ARCHIVE_REFUSED',
          `${path} is a link or device; replace it by a file or ignore it`,
        )
      }
    }
  }
  await visit('')
  const limit = options.maxBytes ?? DEFAULT_MAX_BYTES
  if (bytes > limit)
    throw new OciError('TOO_LARGE', `The folder has ${bytes} bytes, more than the ${limit} allowed`)
  return sources
}

const requireInside = async (dir: string, path: string): Promise<void> => {
  const target = await readlink(join(dir, path))
  if (!leadsOut(path, target)) return
  throw new OciError(
    'ARCHIVE_REFUSED',
    `${path} is a link to ${target}, which leads out of the folder; replace it by what it points to or ignore it`,
  )
}

/** Byte 9 names the operating system that packed; 255 says unknown, the same everywhere. */
const neutralGzipHeader = (): Transform => {
  let at = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const index = 9 - at
      at += chunk.byteLength
      if (index >= 0 && index < chunk.byteLength) chunk[index] = 255
      done(null, chunk)
    },
  })
}
