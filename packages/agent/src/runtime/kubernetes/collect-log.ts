import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import type { Logger } from 'pino'
import { pause } from '../../ground/pause.ts'
import type { KubeApi } from './kube-api.ts'
import type { PodExec } from './kube-exec.ts'
import { FOLLOW, REST } from './pod-scripts.ts'
import { CONTAINER } from './pod-spec.ts'

/** Between two looks at a log that grows, and at one that does not. */
const SOON_MILLISECONDS = 100
const LATER_MILLISECONDS = 1_000
const AGAIN_MILLISECONDS = 500
/** Until the pod is seen to run: each try costs its node time that its start needs, so they come ever more seldom. */
const FIRST_TRY_MILLISECONDS = 700
const LONGEST_TRY_MILLISECONDS = 5_000
const LAST_TRIES_MILLISECONDS = 15_000

/** Brings a job's log from its pod to the agent's disk, byte for byte. */
export interface LogCollector {
  /** What the wrapper said first: `ready` or `refused …`. Pending for ever when it never spoke. */
  readonly first: Promise<string>
  /** The pod runs: what waits for that is tried at once. */
  isUp(): void
  /** Whether the job has ended and all of its log is here. */
  isWhole(): boolean
  /** Reads what is left of an ended job. False when some of it may be lost. */
  finish(wrapperSpoke: boolean, isSilent: () => boolean): Promise<boolean>
  close(): void
}

/**
 * Where the file ends is where the log goes on, also for the next agent. Bytes are written at their own place, so two
 * that collect the same log, as in a change of agents, do each other no harm.
 */
export function collectLog(api: KubeApi, file: string, pod: string, log: Logger): LogCollector {
  const closed = new AbortController()
  const up = new AbortController()
  let speak: (word: string) => void = () => undefined
  const first = new Promise<string>((resolve) => (speak = resolve))
  const state: State = {
    api,
    pod,
    speak,
    signal: closed.signal,
    up: up.signal,
    isFinishing: false,
    isDone: false,
    current: undefined,
  }
  const following = withFile(file, (handle) => follow(state, handle, log)).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      log.warn({ err: error, pod }, 'a log cannot be kept')
  })
  return {
    first,
    isUp: () => up.abort(),
    isWhole: () => state.isDone,
    async finish(wrapperSpoke, isSilent) {
      if (state.isDone) return true
      const patience = AbortSignal.any([closed.signal, AbortSignal.timeout(LAST_TRIES_MILLISECONDS)])
      if (!wrapperSpoke) {
        state.isDone = true
        state.current?.close()
        return withFile(file, (handle) => readRest(state, handle, patience, isSilent))
      }
      state.isFinishing = true
      state.current?.write(Buffer.from('end\n'))
      const over = new AbortController()
      const either = AbortSignal.any([patience, over.signal])
      await Promise.race([following, untilHopeless(state, either, isSilent)])
      over.abort()
      return state.isDone
    },
    close: () => closed.abort(),
  }
}

async function follow(state: State, handle: FileHandle, log: Logger): Promise<void> {
  const { signal, pod, up } = state
  const untilUp = AbortSignal.any([signal, up])
  let tryAgain = FIRST_TRY_MILLISECONDS
  while (!signal.aborted && !state.isDone) {
    // The cluster tells late that a pod runs: whoever waits for its word hears of a short job when it is over.
    if (!up.aborted) {
      await pause(tryAgain, untilUp)
      tryAgain = Math.min(tryAgain * 1.5, LONGEST_TRY_MILLISECONDS)
      if (signal.aborted || state.isDone) return
    }
    try {
      state.isDone = await readOnce(state, handle, FOLLOW)
      if (!state.isDone && up.aborted) await pause(AGAIN_MILLISECONDS, signal)
    } catch (error) {
      if (signal.aborted) return
      log.debug({ err: error, pod }, 'the log of a job cannot be read now')
      if (up.aborted) await pause(AGAIN_MILLISECONDS, signal)
    }
  }
}

async function readRest(
  state: State,
  handle: FileHandle,
  patience: AbortSignal,
  isSilent: () => boolean,
): Promise<boolean> {
  while (!patience.aborted) {
    const isRead = await readOnce(state, handle, REST).catch(() => false)
    if (isRead) return true
    if (isSilent()) return false
    await pause(AGAIN_MILLISECONDS, patience)
  }
  return false
}

async function untilHopeless(state: State, signal: AbortSignal, isSilent: () => boolean): Promise<void> {
  do await pause(AGAIN_MILLISECONDS, signal)
  while (!signal.aborted && !(isSilent() && state.current === undefined))
}

/** One connection to the pod, as long as it holds. True when the pod's side ended it well. */
async function readOnce(state: State, handle: FileHandle, script: string): Promise<boolean> {
  const { api, pod, signal, speak } = state
  let { size: position } = await handle.stat()
  const command = ['/bin/sh', '-c', script, 'tenon-log', String(position)]
  const exec = await api.exec({ pod, container: CONTAINER.keeper, command, signal, stdin: script === FOLLOW })
  state.current = exec
  const asking = script === FOLLOW ? createAsking(exec, () => state.isFinishing) : undefined
  try {
    let said = ''
    for await (const { stream, bytes } of exec.output) {
      if (stream === 'stderr') {
        said += Buffer.from(bytes).toString('utf8')
        if (said.includes('\n')) speak(said.slice(0, said.indexOf('\n')))
        continue
      }
      await handle.write(bytes, 0, bytes.byteLength, position)
      position += bytes.byteLength
      asking?.grew()
    }
    return (await exec.exitCode) === 0
  } finally {
    asking?.close()
    state.current = undefined
  }
}

async function withFile<T>(file: string, use: (handle: FileHandle) => Promise<T>): Promise<T> {
  const handle = await open(file, 'r+')
  try {
    return await use(handle)
  } finally {
    await handle.close()
  }
}

/** The pod's side answers each word with what is new: often while the log grows, seldom while it does not. */
function createAsking(exec: PodExec, isLast: () => boolean): { grew(): void; close(): void } {
  let interval = SOON_MILLISECONDS
  let timer: NodeJS.Timeout | undefined
  const ask = () => {
    exec.write(Buffer.from(isLast() ? 'end\n' : 'go\n'))
    interval = Math.min(interval * 1.5, LATER_MILLISECONDS)
    timer = setTimeout(ask, interval)
  }
  ask()
  return {
    grew() {
      interval = SOON_MILLISECONDS
      clearTimeout(timer)
      timer = setTimeout(ask, interval)
    },
    close: () => clearTimeout(timer),
  }
}

interface State {
  api: KubeApi
  pod: string
  signal: AbortSignal
  up: AbortSignal
  speak(word: string): void
  isFinishing: boolean
  isDone: boolean
  current: PodExec | undefined
}
