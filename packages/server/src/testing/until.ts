import { setTimeout as delay } from 'node:timers/promises'

/** Asks until the answer is there; tells what it waited for when the time is over. */
export async function until<T>(
  what: string,
  ask: () => T | undefined | false | null | Promise<T | undefined | false | null>,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined && answer !== false && answer !== null) return answer
    if (performance.now() >= deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`)
    await delay(20)
  }
}
