import type { Logger } from 'pino'
import { isDatabaseAway } from '../store/database.ts'

export interface Loop {
  stop(): Promise<void>
}

/** The same work again and again, with a pause in between. */
export function every(log: Logger, name: string, ms: number, work: () => Promise<unknown>): Loop {
  let timer: NodeJS.Timeout | undefined
  let running: Promise<unknown> = Promise.resolve()
  let stopped = false
  const turn = () => {
    running = work()
      .catch((error: unknown) =>
        log[isDatabaseAway(error) ? 'warn' : 'error'](
          { err: error, loop: name },
          'a loop had to stop early; it comes again',
        ),
      )
      .finally(() => {
        if (!stopped) timer = setTimeout(turn, ms)
      })
  }
  turn()
  return {
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
