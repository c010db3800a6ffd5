import type { Logger } from 'pino'
import { watchChanges } from '../changes.ts'
import type { JobExit } from '../runtime.ts'
import { parseStatus } from '../wrapper.ts'
import { endOf, hasEnded } from './container-end.ts'
import type { Engine } from './engine.ts'
import { EngineError } from './engine-http.ts'
import { readExit, readRecord, readStatus, readStop, writeExit, writeStop } from './job-folder.ts'
import type { JobFolder } from './job-folder.ts'

const POLL_MILLISECONDS = 5_000
/** Between the wrapper's last word and the engine's, a few milliseconds later. */
const SOON_MILLISECONDS = 20
const ENGINE_AWAY_MILLISECONDS = 1_000
/** How much longer than the wrapper the agent waits before it ends a job itself. */
const LATE_MILLISECONDS = 5_000

export interface EndContext {
  engine: Engine
  log: Logger
  now(): number
}

/** How the job ended, or undefined while it runs. What is found out is written down: it holds when the container is gone. */
export async function outcomeOf(
  { engine }: EndContext,
  folder: JobFolder,
  name: string,
): Promise<JobExit | undefined> {
  const known = await readExit(folder)
  if (known !== undefined) return known
  const record = await readRecord(folder)
  const container = await engine.inspect(name)
  if (record === undefined && container === undefined) {
    return { reason: 'gone', exitCode: null, message: 'There is no such job.' }
  }
  if (container !== undefined && container.status !== 'created' && !hasEnded(container)) return undefined
  const status = parseStatus(await readStatus(folder))
  const ran = container?.status === 'created' ? undefined : container
  const exit = endOf({ container: ran, status, stopReason: await readStop(folder) })
  if (record !== undefined && exit.reason !== 'start') await writeExit(folder, exit)
  return exit
}

/** Resolves at the job's end; rejects only on abort. An engine that is away is waited for. */
export async function followEnd(
  context: EndContext,
  folder: JobFolder,
  name: string,
  signal: AbortSignal,
): Promise<JobExit> {
  const stopped = new AbortController()
  const changes = watchChanges([folder.run], POLL_MILLISECONDS, signal)
  const { engine, log } = context
  const both = AbortSignal.any([signal, stopped.signal])
  engine.wait(name, both).then(changes.wake, () => undefined)
  let isAway = false
  try {
    for (;;) {
      signal.throwIfAborted()
      try {
        const exit = await outcomeOf(context, folder, name)
        if (exit !== undefined) return exit
        isAway = false
        await holdTimeLimit(context, folder, name)
      } catch (error) {
        if (!(error instanceof EngineError)) throw error
        if (!isAway) log.warn({ err: error, container: name }, 'the container engine does not answer')
        isAway = true
        await pause(ENGINE_AWAY_MILLISECONDS, signal)
        continue
      }
      const isEnding = parseStatus(await readStatus(folder)).ended !== undefined
      if (isEnding) await pause(SOON_MILLISECONDS, signal)
      else await changes.next()
    }
  } finally {
    changes.close()
    stopped.abort()
  }
}

/** A job that kills the wrapper's clock ends all the same while an agent is there. */
async function holdTimeLimit(
  { engine, log, now }: EndContext,
  folder: JobFolder,
  name: string,
): Promise<void> {
  const record = await readRecord(folder)
  if (record === undefined) return
  const { jobId, startedAt, timeoutSeconds, graceSeconds } = record
  if (now() <= startedAt + (timeoutSeconds + graceSeconds) * 1000 + LATE_MILLISECONDS) return
  log.warn({ jobId }, 'a job did not end at its time limit; the agent kills it')
  await writeStop(folder, 'timeout', 0)
  await engine.kill(name, 'SIGKILL')
}

export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, milliseconds)
    if (signal?.aborted) finish()
    else signal?.addEventListener('abort', finish)
  })
}
