import { setTimeout as pause } from 'node:timers/promises'

/** Waits for a fact, with a deadline that names it. A look that fails (the server is away) is a look that saw nothing. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  seconds = 90,
): Promise<T> {
  const deadline = Date.now() + seconds * 1000
  let problem: unknown
  for (;;) {
    try {
      const seen = await look()
      if (seen !== undefined && seen !== false) return seen
      problem = undefined
    } catch (error) {
      problem = error
    }
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`, { cause: problem })
    await pause(40)
  }
}
