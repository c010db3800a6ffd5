import { until } from './until.ts'

/** Asks an address again and again, as its users do, and counts. */
export interface Probe {
  failures: string[]
  /** Resolves after this many more answers. */
  answers(count: number): Promise<void>
  stop(): Promise<void>
}

export function createProbe(url: string): Probe {
  const failures: string[] = []
  let answered = 0
  let stopped = false
  const asking = (async () => {
    while (!stopped) {
      try {
        const answer = await fetch(url, {
          headers: { connection: 'close' },
          signal: AbortSignal.timeout(5_000),
        })
        await answer.arrayBuffer()
        if (!answer.ok) throw new Error(`it answered ${answer.status}`)
        answered += 1
      } catch (error) {
        const { message, cause } = error as Error
        failures.push(`${message} ${cause instanceof Error ? cause.message : ''}`)
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })()
  return {
    failures,
    async answers(count) {
      const goal = answered + count
      await until(`${count} answers of ${url}`, () => answered >= goal || failures.length > 0)
    },
    async stop() {
      stopped = true
      await asking
    },
  }
}
