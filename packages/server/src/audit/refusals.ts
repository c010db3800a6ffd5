import type { Context } from '../context.ts'
import type { CountedRefusal, Refusals } from '../ground/refusals.ts'
import { transact } from '../store/transaction.ts'

/** Of each kind of refusal one is written in this time; how many more there were is written after it. */
export const SAMPLE_MS = 60_000

export function createRefusals(): Refusals {
  const kinds = new Map<string, CountedRefusal>()
  const judged = new WeakMap<object, boolean>()
  const keyOf = ({ chain, action, code }: Pick<CountedRefusal, 'chain' | 'action' | 'code'>) =>
    [chain, action, code].join(' ')
  const isOver = (kind: CountedRefusal, nowMs: number) => nowMs - kind.fromMs >= SAMPLE_MS
  const isSample = (chain: string, action: CountedRefusal['action'], code: string, nowMs: number) => {
    const key = keyOf({ chain, action, code })
    const known = kinds.get(key)
    // What was counted is not written yet: until it is, all that comes is counted with it.
    if (known && (known.count > 0 || !isOver(known, nowMs))) {
      known.count++
      known.untilMs = nowMs
      return false
    }
    kinds.set(key, { chain, action, code, count: 0, fromMs: nowMs, untilMs: nowMs })
    return true
  }
  return {
    admit(request, ...kind) {
      const answer = judged.get(request) ?? isSample(...kind)
      judged.set(request, answer)
      return answer
    },
    due(nowMs, all) {
      for (const [key, kind] of kinds) if (kind.count === 0 && isOver(kind, nowMs)) kinds.delete(key)
      return [...kinds.values()]
        .filter((kind) => kind.count > 0 && (all || isOver(kind, nowMs)))
        .map((kind) => ({ ...kind }))
    },
    written(some, nowMs) {
      for (const each of some) {
        const kind = kinds.get(keyOf(each))
        if (kind) Object.assign(kind, { count: kind.count - each.count, fromMs: nowMs })
      }
    },
  }
}

/** The counts become audit entries, one per kind and minute at most. */
export async function writeRefusals(context: Context, all = false): Promise<void> {
  const due = context.refusals.due(context.now(), all)
  if (due.length === 0) return
  await transact(context, async (tx) => {
    for (const { chain, action, code, count, fromMs, untilMs } of due)
      tx.audit(chain, {
        actor: { type: 'server', id: context.serverId },
        action,
        subject: { type: 'server', id: context.serverId },
        outcome: 'refused',
        manifestDigest: null,
        details: {
          code,
          more: count,
          from: new Date(fromMs).toISOString(),
          until: new Date(untilMs).toISOString(),
        },
      })
  })
  context.refusals.written(due, context.now())
}
