import { fullJitter } from '@tenon/core'
import { ApiError } from '@tenon/protocol'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import type { Clock } from '../io.ts'

const BASE_MS = 250
const CAP_MS = 5000
const GIVE_UP_MS = 120_000

export interface Reconnect {
  /** Something arrived: the count starts again. */
  alive(): void
  /** Waits before the next attempt, or throws when it has been away for too long. */
  pause(error: unknown): Promise<void>
}

/** Rides out a restart of the server; `say` is called once for each time it is away. */
export function createReconnect(clock: Clock, signal: AbortSignal, say: () => void): Reconnect {
  let attempt = 0
  let awaySince: number | undefined
  return {
    alive() {
      attempt = 0
      awaySince = undefined
    },
    async pause(error) {
      if (error !== undefined && !isPassing(error)) throw error
      if (awaySince === undefined) {
        awaySince = clock.now()
      } else if (clock.now() - awaySince > GIVE_UP_MS) {
        throw new CliError(EXIT.unavailable, 'the connection is away and did not come back', {
          next: 'check the server: tenon doctor',
          cause: error,
        })
      }
      if (attempt === 1) say()
      await clock.sleep(fullJitter(attempt++, 0.5 + Math.random() / 2, BASE_MS, CAP_MS), signal)
    },
  }
}

const PASSING = new Set(['unreachable', 'unavailable', 'rate_limited', 'bad_answer', 'internal'])

/** A broken stream shows as a TypeError of fetch; an answer that refuses does not pass by waiting. */
function isPassing(error: unknown): boolean {
  if (error instanceof ApiError) return PASSING.has(error.code)
  return error instanceof TypeError || (error instanceof Error && error.name === 'TimeoutError')
}
