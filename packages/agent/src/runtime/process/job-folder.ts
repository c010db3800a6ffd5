import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { allDone, keepFirst, placeFile, readJson, readText } from '../job-files.ts'
import type { ExitFacts } from './exit-reason.ts'
import type { ProcessIdentity } from './processes.ts'

/** Where everything of one job lies. `run` is the launcher's, `work` the only part that a confined job sees. */
export interface JobFolder {
  root: string
  spec: string
  log: string
  work: string
  temporary: string
  run: string
}

export const recordSchema = z.object({
  jobId: z.string(),
  fence: z.number(),
  command: z.array(z.string()),
  startedAt: z.number(),
  timeoutSeconds: z.number(),
  graceSeconds: z.number(),
  memoryBytes: z.number(),
  confined: z.boolean(),
  confinement: z.string(),
  cgroup: z.array(z.string()),
  /** Whether the agent itself must watch memory and time, since nothing on this machine does it for it. */
  watchMemory: z.boolean(),
  watchTime: z.boolean(),
})

/** What `spec.json` keeps of a job: never the contents of its files, one of which is its token. */
export type JobRecord = z.infer<typeof recordSchema>

const identitySchema = z.object({
  pid: z.number().int().positive(),
  startTime: z.string(),
  bootId: z.string(),
})

const JOB_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

export function isJobId(jobId: string): boolean {
  return JOB_ID.test(jobId)
}

export function jobFolder(dir: string, jobId: string): JobFolder {
  const root = path.join(dir, jobId)
  const work = path.join(root, 'work')
  return {
    root,
    spec: path.join(root, 'spec.json'),
    log: path.join(root, 'log'),
    work,
    temporary: path.join(work, 'tmp'),
    run: path.join(root, 'run'),
  }
}

export async function createJobFolder(folder: JobFolder, files: Record<string, string>): Promise<void> {
  const mode = 0o700
  await mkdir(folder.temporary, { recursive: true, mode })
  const place = async ([name, content]: [string, string]): Promise<void> => {
    const file = path.join(folder.work, name)
    if (path.relative(folder.work, file).startsWith('..') || path.isAbsolute(name)) {
      throw new Error(`The file name ${JSON.stringify(name)} leads out of the job's folder.`)
    }
    await mkdir(path.dirname(file), { recursive: true, mode })
    await writeFile(file, content, { mode: 0o600, flag: 'wx' })
  }
  await allDone([
    mkdir(folder.run, { mode }),
    writeFile(folder.log, '', { mode: 0o600 }),
    ...Object.entries(files).map(place),
  ])
}

export async function jobIds(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isDirectory() && isJobId(entry.name)).map((entry) => entry.name)
}

export async function removeJobFolder(folder: JobFolder): Promise<void> {
  await rm(folder.root, { recursive: true, force: true, maxRetries: 5 })
}

export async function writeRecord(folder: JobFolder, record: JobRecord): Promise<void> {
  await placeFile(folder.spec, JSON.stringify(record))
}

export async function readRecord(folder: JobFolder): Promise<JobRecord | undefined> {
  return readJson(folder.spec, recordSchema)
}

/** Written before the launcher is told to go: a job that runs always has one. */
export async function writeIdentity(folder: JobFolder, identity: ProcessIdentity): Promise<void> {
  await placeFile(path.join(folder.run, 'pid'), JSON.stringify(identity))
}

export async function readIdentity(folder: JobFolder): Promise<ProcessIdentity | undefined> {
  return readJson(path.join(folder.run, 'pid'), identitySchema)
}

/** The session of the job's own processes, apart from the launcher's. */
export async function readSession(folder: JobFolder): Promise<number | undefined> {
  const session = Number(await readText(path.join(folder.run, 'session')))
  return Number.isInteger(session) && session > 1 ? session : undefined
}

/** The launcher reads it when it gets SIGTERM. The first reason stays. */
export async function writeStop(folder: JobFolder, reason: string, graceSeconds: number): Promise<void> {
  await placeFile(path.join(folder.run, 'stop'), `${reason} ${graceSeconds}\n`, keepFirst)
}

export async function markOverMemory(folder: JobFolder): Promise<void> {
  await placeFile(path.join(folder.run, 'over-memory'), '')
}

/** Nobody saw this job end and nothing of it is left. */
export async function writeGone(folder: JobFolder): Promise<void> {
  await placeFile(path.join(folder.run, 'exit'), 'gone none 0\n', keepFirst).catch((error: unknown) => {
    // Somebody removed the job meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  })
}

/** Undefined also while its line is being written. */
export async function readExit(folder: JobFolder): Promise<ExitFacts | undefined> {
  const text = await readText(path.join(folder.run, 'exit'))
  if (!text?.endsWith('\n')) return undefined
  const [code = 'gone', cause = 'none', oomKills = '0'] = text.trim().split(' ')
  const stop = (await readText(path.join(folder.run, 'stop')))?.split(' ')[0]
  return {
    code: code === 'gone' ? null : Number(code),
    cause: cause === 'timeout' || cause === 'stopped' ? cause : 'none',
    oomKills: Number(oomKills),
    overMemory: (await readText(path.join(folder.run, 'over-memory'))) !== undefined,
    stopReason: stop === 'timeout' || stop === 'canceled' ? stop : undefined,
  }
}
