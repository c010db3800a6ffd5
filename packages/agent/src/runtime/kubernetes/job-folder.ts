import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { JOB_END_REASONS } from '@tenon/core'
import { keepFirst, placeFile, readJson, readText } from '../job-files.ts'
import type { JobExit } from '../runtime.ts'

/** What the agent keeps of a job on its own disk: it holds when pod and node are gone. */
export interface JobFolder {
  root: string
  record: string
  /** The job's log as far as it was read from its pod. */
  log: string
  exit: string
  stop: string
}

export const recordSchema = z.object({
  jobId: z.string(),
  fence: z.number(),
  confinement: z.string(),
  /** When its start was asked for; once it is up, since when it runs. */
  startedAt: z.number(),
  timeoutSeconds: z.number(),
  graceSeconds: z.number(),
  /** Of the Job: pods of an earlier one with the same name are none of this job's. */
  jobUid: z.string().optional(),
  /** Set once the program runs: from then on it is this pod or none. */
  podUid: z.string().optional(),
})
/** Never the contents of its files, one of which is its token. */
export type JobRecord = z.infer<typeof recordSchema>

const exitSchema = z.object({
  reason: z.enum(JOB_END_REASONS),
  exitCode: z.number().nullable(),
  message: z.string(),
})
export type StopReason = 'canceled' | 'timeout'

export function jobFolder(dir: string, jobId: string): JobFolder {
  const root = path.join(dir, jobId)
  return {
    root,
    record: path.join(root, 'record.json'),
    log: path.join(root, 'log'),
    exit: path.join(root, 'exit.json'),
    stop: path.join(root, 'stop'),
  }
}

export async function createJobFolder(folder: JobFolder, record: JobRecord): Promise<void> {
  await mkdir(folder.root, { recursive: true, mode: 0o700 })
  await placeFile(folder.log, '')
  await writeRecord(folder, record)
}

export async function removeJobFolder(folder: JobFolder): Promise<void> {
  await rm(folder.root, { recursive: true, force: true, maxRetries: 5 })
}

export async function writeRecord(folder: JobFolder, record: JobRecord): Promise<void> {
  await unlessRemoved(placeFile(folder.record, JSON.stringify(record)))
}

export async function readRecord(folder: JobFolder): Promise<JobRecord | undefined> {
  return readJson(folder.record, recordSchema)
}

/** The first one stays. A job that was removed meanwhile has none. */
export async function writeExit(folder: JobFolder, exit: JobExit): Promise<void> {
  await unlessRemoved(placeFile(folder.exit, JSON.stringify(exit), keepFirst))
}

export async function readExit(folder: JobFolder): Promise<JobExit | undefined> {
  return readJson(folder.exit, exitSchema)
}

/** The first reason stays. */
export async function writeStop(folder: JobFolder, reason: StopReason): Promise<void> {
  await unlessRemoved(placeFile(folder.stop, reason, keepFirst))
}

export async function readStop(folder: JobFolder): Promise<StopReason | undefined> {
  const reason = await readText(folder.stop)
  return reason === 'canceled' || reason === 'timeout' ? reason : undefined
}

async function unlessRemoved(writing: Promise<void>): Promise<void> {
  await writing.catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
}
