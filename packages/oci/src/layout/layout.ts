import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { packTar } from 'modern-tar/fs'
import { unpackTar } from '../artifact/unpack.ts'
import type { UnpackLimits } from '../artifact/unpack.ts'
import { copyArtifact } from '../copy/copy-artifact.ts'
import type { CopyEnd, CopyOptions, CopyResult } from '../copy/copy-artifact.ts'
import { temporaryName } from '../storage/durable-file.ts'
import {
  chooseEntry,
  entryFor,
  readEntries,
  referrerEntry,
  requireLayout,
  writeEntries,
} from './layout-index.ts'
import { createLayoutStore } from './layout-store.ts'

type Shared = Omit<CopyOptions, 'from' | 'to' | 'digest'>

export interface ExportOptions extends Shared {
  from: CopyEnd
  digest: CopyOptions['digest']
}

export interface ImportOptions extends Shared {
  to: CopyEnd
  /** A name or digest among the layout's entries; needed when there are several. */
  reference?: string
}

/** Writes an artifact into a folder in OCI's image layout, beside what that holds; `tag` names it there. */
export const exportLayout = async (dir: string, options: ExportOptions): Promise<CopyResult> => {
  const { tag, ...rest } = options
  const store = createLayoutStore(dir)
  const result = await copyArtifact({ ...rest, to: { client: store, repository: 'layout' } })
  await writeEntries(dir, [...result.referrers.map(referrerEntry), entryFor(result, tag)])
  return result
}

/** Brings an artifact out of a layout folder into a registry. */
export const importLayout = async (dir: string, options: ImportOptions): Promise<CopyResult> => {
  const { reference, ...rest } = options
  await requireLayout(dir)
  const { digest } = chooseEntry(await readEntries(dir), reference)
  return copyArtifact({ ...rest, from: { client: createLayoutStore(dir), repository: 'layout' }, digest })
}

/** The same as one tar, which tools call `oci-archive`. */
export const exportLayoutTar = async (file: string, options: ExportOptions): Promise<CopyResult> => {
  const dir = await mkdtemp(join(dirname(file), '.layout-'))
  const temporary = temporaryName(dirname(file))
  try {
    const result = await exportLayout(dir, options)
    await pipeline(packTar(dir), createWriteStream(temporary, { flags: 'wx' }))
    await rename(temporary, file)
    return result
  } finally {
    await rm(dir, { recursive: true, force: true })
    await rm(temporary, { force: true })
  }
}

/** Unpacks with the care that any archive from elsewhere needs, then imports. */
export const importLayoutTar = async (
  file: string,
  options: ImportOptions & { limits?: UnpackLimits; temporaryFolder?: string },
): Promise<CopyResult> => {
  const { limits, temporaryFolder, ...rest } = options
  const dir = await mkdtemp(join(temporaryFolder ?? tmpdir(), 'layout-'))
  try {
    await unpackTar(createReadStream(file), join(dir, 'layout'), limits)
    return await importLayout(join(dir, 'layout'), rest)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
