import type { ApplyResult } from '@tenon/protocol/local-host'
import { tailOfLatest } from './unit-log.ts'
import { describeExit } from './unit-status.ts'
import type { Vitals } from './unit-status.ts'

/** One crash may be a dependency that is still coming; after this many in a row waiting on is no use. */
const CRASHES_TO_GIVE_UP = 3
const LOG_LINES = 20

/** Waits until this version is healthy, or says why it is not. */
export async function waitForHealth(options: WaitOptions): Promise<Waited> {
  const verdict = await new Promise<ApplyResult['outcome']>((resolve) => {
    const finish = (outcome: ApplyResult['outcome']) => {
      clearTimeout(deadline)
      unsubscribe()
      options.signal.removeEventListener('abort', abort)
      resolve(outcome)
    }
    const abort = () => finish('not_waited')
    const look = () => {
      const outcome = judge(options)
      if (outcome) finish(outcome)
    }
    const unsubscribe = options.onChange(look)
    const late = () => finish(options.vitals().crashes > 0 ? 'crashed' : 'probe_failed')
    const deadline = setTimeout(options.waitMs > 0 ? late : abort, options.waitMs)
    options.signal.addEventListener('abort', abort)
    look()
  })
  return explain(verdict, options)
}

function judge({ version, wanted, vitals }: WaitOptions): ApplyResult['outcome'] | undefined {
  if (wanted() !== version) return 'superseded'
  const { state, crashes, version: current } = vitals()
  if (state === 'healthy' && current === version) return 'healthy'
  return crashes >= CRASHES_TO_GIVE_UP ? 'crashed' : undefined
}

async function explain(outcome: ApplyResult['outcome'], options: WaitOptions): Promise<Waited> {
  const vitals = options.vitals()
  switch (outcome) {
    case 'healthy':
    case 'not_waited':
      return { outcome, reason: null, logTail: [] }
    case 'superseded':
      return { outcome, reason: 'A later change replaced this one, or the unit was stopped.', logTail: [] }
    case 'crashed':
      return {
        outcome,
        reason: describeExit(vitals),
        logTail: await tailOfLatest(options.logPath, LOG_LINES),
      }
    case 'probe_failed': {
      const last = vitals.lastHealthError ?? 'no probe was answered yet'
      const reason = `Not healthy within ${options.waitMs / 1000} s. Last probe: ${last}`
      return { outcome, reason, logTail: await tailOfLatest(options.logPath, LOG_LINES) }
    }
  }
}

type Waited = Pick<ApplyResult, 'outcome' | 'reason' | 'logTail'>

interface WaitOptions {
  version: string
  waitMs: number
  signal: AbortSignal
  logPath: string
  wanted: () => string | undefined
  vitals: () => Vitals
  onChange: (listener: () => void) => () => void
}
