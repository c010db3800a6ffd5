/** Waits for a condition, with a deadline; a test never sleeps for a race. */
export async function waitUntil<T>(
  what: string,
  check: () => T | undefined | false | null,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const value = check()
    if (value !== undefined && value !== false && value !== null) return value
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}
