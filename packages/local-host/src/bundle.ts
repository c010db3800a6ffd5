import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, readlink, symlink } from 'node:fs/promises'
import { createReadStream, createWriteStream } from 'node:fs'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { sizeWords } from '@tenon/core'
import { HostError, messageOf } from './errors.ts'

export const MAX_BUNDLE_BYTES = 512 * 1024 * 1024
export const MAX_BUNDLE_ENTRIES = 20_000

/** Copies a folder and names what was copied, so that a change of the source meanwhile cannot lie. */
export async function copyBundle(source: string, target: string): Promise<string> {
  const copy: Copy = { source, target, entries: [], bytes: 0 }
  try {
    if (!(await lstat(source)).isDirectory()) throw invalid(`${source} is not a folder.`)
    await mkdir(target, { recursive: true, mode: 0o700 })
    await copyFolder(copy, '')
  } catch (error) {
    if (error instanceof HostError) throw error
    throw invalid(`${source} cannot be copied: ${messageOf(error)}`, error)
  }
  return createHash('sha256').update(copy.entries.toSorted().join('\n')).digest('hex')
}

async function copyFolder(copy: Copy, path: string): Promise<void> {
  for (const name of await readdir(join(copy.source, path))) {
    const inner = join(path, name)
    if (copy.entries.length >= MAX_BUNDLE_ENTRIES) throw invalid(`More than ${MAX_BUNDLE_ENTRIES} files.`)
    const from = join(copy.source, inner)
    const stat = await lstat(from)
    if (stat.isDirectory()) {
      await mkdir(join(copy.target, inner), { mode: 0o700 })
      copy.entries.push(JSON.stringify([inner, 'folder']))
      await copyFolder(copy, inner)
    } else if (stat.isSymbolicLink()) {
      await copyLink(copy, path, inner)
    } else if (stat.isFile()) {
      await copyFile(copy, inner, (stat.mode & 0o100) !== 0)
    } else {
      throw invalid(`${inner} is neither a file, a folder nor a link.`)
    }
  }
}

/** A link out of the bundle would carry other installs' files into this one. */
async function copyLink(copy: Copy, folder: string, inner: string): Promise<void> {
  const to = await readlink(join(copy.source, inner))
  const reached = relative(copy.source, resolve(copy.source, folder, to))
  if (isAbsolute(to) || reached === '..' || reached.startsWith(`..${sep}`)) {
    throw invalid(`The link ${inner} points outside the folder.`)
  }
  await symlink(to, join(copy.target, inner))
  copy.entries.push(JSON.stringify([inner, 'link', to]))
}

async function copyFile(copy: Copy, inner: string, executable: boolean): Promise<void> {
  const hash = createHash('sha256')
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      copy.bytes += chunk.length
      if (copy.bytes > MAX_BUNDLE_BYTES) return done(invalid(`More than ${sizeWords(MAX_BUNDLE_BYTES)}.`))
      hash.update(chunk)
      done(null, chunk)
    },
  })
  const target = join(copy.target, inner)
  const mode = executable ? 0o700 : 0o600
  await pipeline(
    createReadStream(join(copy.source, inner)),
    measure,
    createWriteStream(target, { flags: 'wx', mode }),
  )
  await chmod(target, mode)
  copy.entries.push(JSON.stringify([inner, executable ? 'program' : 'file', hash.digest('hex')]))
}

function invalid(message: string, cause?: unknown): HostError {
  const remedy = 'Give an existing folder of plain files whose links stay inside it.'
  return new HostError('bundle_invalid', message, remedy, cause)
}

interface Copy {
  source: string
  target: string
  entries: string[]
  bytes: number
}
