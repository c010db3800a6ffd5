import type { Logger } from 'pino'
import { markOverMemory, readSession } from './job-folder.ts'
import type { JobFolder, JobRecord } from './job-folder.ts'
import { jobProcesses, residentBytes, sendSignal } from './processes.ts'

const WATCH_MILLISECONDS = 250

/** Holds a job to its limits where nothing on the machine does: by looking at it again and again. */
export interface LimitWatch {
  add(record: JobRecord): void
}

export interface WatchContext {
  folderOf(jobId: string): Promise<JobFolder>
  log: Logger
  now(): number
  isRunning(jobId: string): Promise<boolean>
  stop(jobId: string, graceSeconds: number, reason: 'timeout'): Promise<void>
}

export function createLimitWatch(context: WatchContext): LimitWatch {
  const watched = new Map<string, JobRecord>()
  const late = new Set<string>()
  let timer: NodeJS.Timeout | undefined

  async function look(record: JobRecord): Promise<void> {
    const { jobId } = record
    if (!(await context.isRunning(jobId))) {
      watched.delete(jobId)
      late.delete(jobId)
      return
    }
    if (record.watchMemory) await holdMemory(await context.folderOf(jobId), record)
    if (record.watchTime && !late.has(jobId) && isLate(record, context.now())) {
      late.add(jobId)
      await context.stop(jobId, record.graceSeconds, 'timeout')
    }
  }

  async function round(): Promise<void> {
    for (const record of watched.values()) {
      await look(record).catch((error: unknown) =>
        context.log.warn({ err: error, jobId: record.jobId }, 'the limits of a job could not be watched'),
      )
    }
    timer = watched.size === 0 ? undefined : setTimeout(() => void round(), WATCH_MILLISECONDS).unref()
  }

  return {
    add(record) {
      if (!record.watchMemory && !record.watchTime) return
      watched.set(record.jobId, record)
      timer ??= setTimeout(() => void round(), WATCH_MILLISECONDS).unref()
    },
  }
}

async function holdMemory(folder: JobFolder, record: JobRecord): Promise<void> {
  const session = await readSession(folder)
  if (session === undefined) return
  const pids = jobProcesses([session], folder.temporary, false)
  if (residentBytes(pids) <= record.memoryBytes) return
  await markOverMemory(folder)
  for (const pid of pids) sendSignal(pid, 'SIGKILL')
}

function isLate(record: JobRecord, now: number): boolean {
  return now - record.startedAt > record.timeoutSeconds * 1000
}
