import type { JobManifest } from '@tenon/core'
import type { JobRecord, JournalState } from '../journal/journal-state.ts'

/** Why a job may not start now, by the customer's word. */
export interface Hold {
  rule: string
  reason: string
  /** When it may start by itself, where that is known. */
  until: string | null
}

/** Pure: undefined when a job may start. */
export function holdOf({ paused }: Pick<JournalState, 'paused'>): Hold | undefined {
  if (paused === null) return undefined
  const reason = `the customer paused this agent at ${paused}; it starts no jobs until it is resumed`
  return { rule: 'pause', reason, until: null }
}

/**
 * Pure: the last moment to start, in milliseconds since the epoch. The server has its step ask anew after it, by a clock of
 * its own, so that some of the time is given up; of a short one, little. Until the server has answered, nobody else can
 * have the job, and the manifest's own end counts.
 */
export function lastStartOf(
  { startBefore, held }: Pick<JobRecord, 'startBefore' | 'held'>,
  { expiresAt }: Pick<JobManifest, 'expiresAt'>,
  skewMs: number,
): number {
  if (startBefore === null) return Date.parse(expiresAt)
  const end = Date.parse(startBefore)
  const length = held ? Math.max(0, end - Date.parse(held.since)) : 0
  return end - Math.min(skewMs, length / 10)
}

/** setTimeout takes no more. */
const MAX_TIMER_MS = 2_147_483_647

/** What held jobs wait for: that the customer's word changes. They are woken in the order in which they came. */
export class Holds {
  readonly #waiting = new Set<() => void>()

  wake(): void {
    for (const wake of this.#waiting) wake()
  }

  /** Resolves when woken, when aborted, or after that time. */
  wait(signal: AbortSignal, ms: number): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#waiting.delete(done)
        resolve()
      }
      const timer = setTimeout(done, Math.min(Math.max(ms, 0), MAX_TIMER_MS))
      signal.addEventListener('abort', done, { once: true })
      this.#waiting.add(done)
    })
  }
}
