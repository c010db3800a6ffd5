import { chmod, chown, mkdir, open, readdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { JOB_END_REASONS } from '@tenon/core'
import { keepFirst, placeFile, readJson, readText } from '../job-files.ts'
import type { JobExit } from '../runtime.ts'

/** Where everything of one job lies on the host. `work` is seen under the same path inside the container. */
export interface JobFolder {
  root: string
  record: string
  log: string
  run: string
  /** What the wrapper says; see `container-end.ts`. */
  status: string
  exit: string
  control: string
  files: string
  work: string
  temporary: string
}

export const recordSchema = z.object({
  jobId: z.string(),
  fence: z.number(),
  confinement: z.string(),
  startedAt: z.number(),
  timeoutSeconds: z.number(),
  graceSeconds: z.number(),
})
/** What is kept of a job: never the contents of its files, one of which is its token. */
export type JobRecord = z.infer<typeof recordSchema>

const exitSchema = z.object({
  reason: z.enum(JOB_END_REASONS),
  exitCode: z.number().nullable(),
  message: z.string(),
})
export type StopReason = 'canceled' | 'timeout'

const JOB_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/
/** The job can write its status file too; more than the wrapper's own lines is not read. */
const STATUS_BYTES = 4096

export function isJobId(jobId: string): boolean {
  return JOB_ID.test(jobId)
}

export function jobFolder(dir: string, jobId: string): JobFolder {
  const root = path.join(dir, jobId)
  const run = path.join(root, 'run')
  const work = path.join(root, 'work')
  return {
    root,
    record: path.join(root, 'record.json'),
    log: path.join(root, 'log'),
    run,
    status: path.join(run, 'status'),
    exit: path.join(run, 'exit.json'),
    control: path.join(root, 'control'),
    files: path.join(root, 'files'),
    work,
    temporary: path.join(work, 'tmp'),
  }
}

export interface JobFolderContent {
  record: JobRecord
  files: Record<string, string>
  /** Whether the work folder is on the disk, so that the files go there at once. */
  worksOnDisk: boolean
  /** Given everything that the job itself reads and writes; undefined when that is the agent's own user. */
  owner: { uid: number; gid: number } | undefined
}

export async function createJobFolder(folder: JobFolder, content: JobFolderContent): Promise<void> {
  const target = content.worksOnDisk ? folder.work : folder.files
  const inner = content.worksOnDisk ? folder.temporary : folder.files
  const owned = new Set([folder.work, inner, folder.log, folder.status])
  for (const made of [folder.run, folder.control, folder.work, inner]) {
    await mkdir(made, { recursive: true, mode: 0o700 })
  }
  await chmod(folder.control, 0o755)
  for (const file of [folder.log, folder.status]) await writeFile(file, '', { mode: 0o600 })
  for (const [name, text] of Object.entries(content.files)) {
    const file = path.join(target, name)
    if (path.relative(target, file).startsWith('..') || path.isAbsolute(name)) {
      throw new Error(`The file name ${JSON.stringify(name)} leads out of the job's folder.`)
    }
    for (const made of parentsBelow(target, file)) {
      await mkdir(made, { recursive: true, mode: 0o700 })
      owned.add(made)
    }
    await writeFile(file, text, { mode: 0o600, flag: 'wx' })
    owned.add(file)
  }
  const { owner } = content
  if (owner !== undefined) for (const place of owned) await chown(place, owner.uid, owner.gid)
  await placeFile(folder.record, JSON.stringify(content.record))
}

export async function jobIds(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isDirectory() && isJobId(entry.name)).map((entry) => entry.name)
}

export async function removeJobFolder(folder: JobFolder): Promise<void> {
  await rm(folder.root, { recursive: true, force: true, maxRetries: 5 })
}

export async function readRecord(folder: JobFolder): Promise<JobRecord | undefined> {
  return readJson(folder.record, recordSchema)
}

/** The first one stays. A job that was removed meanwhile has none. */
export async function writeExit(folder: JobFolder, exit: JobExit): Promise<void> {
  await placeFile(folder.exit, JSON.stringify(exit), keepFirst).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
}

export async function readExit(folder: JobFolder): Promise<JobExit | undefined> {
  return readJson(folder.exit, exitSchema)
}

/** The wrapper, maybe another user, reads it when it gets SIGTERM. The first reason stays. */
export async function writeStop(folder: JobFolder, reason: StopReason, graceSeconds: number): Promise<void> {
  const file = path.join(folder.control, 'stop')
  await placeFile(file, `${reason} ${graceSeconds}\n`, async (draft) => {
    await chmod(draft, 0o644)
    await keepFirst(draft, file)
  })
}

export async function readStop(folder: JobFolder): Promise<StopReason | undefined> {
  const reason = (await readText(path.join(folder.control, 'stop')))?.split(' ')[0]
  return reason === 'canceled' || reason === 'timeout' ? reason : undefined
}

export async function readStatus(folder: JobFolder): Promise<string> {
  const handle = await open(folder.status).catch(() => undefined)
  if (handle === undefined) return ''
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(STATUS_BYTES), 0, STATUS_BYTES, 0)
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await handle.close()
  }
}

function parentsBelow(folder: string, file: string): string[] {
  const parts = path
    .relative(folder, path.dirname(file))
    .split(path.sep)
    .filter((part) => part !== '')
  return parts.map((_, index) => path.join(folder, ...parts.slice(0, index + 1)))
}
