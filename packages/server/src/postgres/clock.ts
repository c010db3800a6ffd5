import { setTimeout as delay } from 'node:timers/promises'

export type Clock = {
  now(): number
  /** Ends early, without an error, when the signal fires. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: async (ms, signal) => {
    await delay(ms, undefined, signal === undefined ? {} : { signal }).catch((error: unknown) => {
      if (signal?.aborted !== true) throw error
    })
  },
}

/** Asks until the answer is there or the time is over; undefined means the time is over. */
export async function waitFor<T>(
  clock: Clock,
  timeoutMs: number,
  ask: () => T | undefined | Promise<T | undefined>,
): Promise<T | undefined> {
  const deadline = clock.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (clock.now() >= deadline) return undefined
    await clock.sleep(20)
  }
}
