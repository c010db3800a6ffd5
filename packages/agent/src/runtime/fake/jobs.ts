import { setMaxListeners } from 'node:events'
import type { JobExit } from '../runtime.ts'
import { fakeEnd, nextChange } from './life.ts'
import type { FakeState } from './life.ts'
import { fileTime } from './store.ts'
import type { FakeStore } from './store.ts'

const SHARED_POLL_MILLISECONDS = 50
const LONGEST_SLEEP_MILLISECONDS = 60_000

export interface FakeClock {
  now(): number
  /** Resolves after the time or on abort. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>
}

/** The fake jobs of one store, and who waits for them. */
export interface FakeJobs {
  look(jobId: string): FakeState | undefined
  all(): FakeState[]
  exitOf(state: FakeState): JobExit | undefined
  change(state: FakeState): FakeState
  changeRunning(jobId: string, make: (state: FakeState) => FakeState): void
  forget(jobId: string): void
  /** Until the job changes by itself or through a call, or on abort. */
  sleep(state: FakeState, signal: AbortSignal): Promise<void>
}

export function createFakeJobs(store: FakeStore, clock: FakeClock): FakeJobs {
  const sleepers: Sleepers = new Map()

  function look(jobId: string): FakeState | undefined {
    const state = store.get(jobId)
    const file = state?.behaviour.untilReleased
    if (state === undefined || typeof file !== 'string' || state.releasedAt !== undefined) return state
    const releasedAt = fileTime(file)
    if (releasedAt === undefined) return state
    return change({ ...state, releasedAt: Math.max(releasedAt, state.startedAt) })
  }

  function change(state: FakeState): FakeState {
    store.put(state)
    wake(state.jobId)
    return state
  }

  function exitOf(state: FakeState): JobExit | undefined {
    const end = fakeEnd(state)
    return end !== undefined && end.at <= clock.now() ? end.exit : undefined
  }

  function wake(jobId: string): void {
    for (const sleeper of sleepers.get(jobId) ?? []) sleeper.abort()
  }

  async function sleep(state: FakeState, signal: AbortSignal): Promise<void> {
    const mustPoll = store.isShared || typeof state.behaviour.untilReleased === 'string'
    const longest = mustPoll ? SHARED_POLL_MILLISECONDS : LONGEST_SLEEP_MILLISECONDS
    const milliseconds = Math.min(longest, nextChange(state, clock.now()) - clock.now())
    await sleepAmong(sleepers, state.jobId, signal, (woken) => clock.sleep(milliseconds, woken))
  }

  return {
    look,
    all: () =>
      store
        .ids()
        .map((jobId) => look(jobId))
        .filter((state) => state !== undefined),
    exitOf,
    change,
    changeRunning(jobId, make) {
      const state = look(jobId)
      if (state !== undefined && exitOf(state) === undefined) change(make(state))
    },
    forget(jobId) {
      store.delete(jobId)
      wake(jobId)
    },
    sleep,
  }
}

async function sleepAmong(
  sleepers: Sleepers,
  jobId: string,
  signal: AbortSignal,
  sleep: (woken: AbortSignal) => Promise<void>,
): Promise<void> {
  const sleeper = new AbortController()
  const onAbort = () => sleeper.abort()
  const all = sleepers.get(jobId) ?? new Set()
  sleepers.set(jobId, all.add(sleeper))
  // One signal often stops the waits for thousands of jobs.
  setMaxListeners(0, signal)
  signal.addEventListener('abort', onAbort)
  await sleep(sleeper.signal)
  signal.removeEventListener('abort', onAbort)
  all.delete(sleeper)
  if (all.size === 0) sleepers.delete(jobId)
}

type Sleepers = Map<string, Set<AbortController>>
