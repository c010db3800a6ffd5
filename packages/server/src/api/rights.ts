import type { ServerResponse } from 'node:http'
import type { Context } from '../context.ts'
import type { Caller } from '../people/actor.ts'
import { callerOf, mayCall, type Right } from '../people/authority.ts'
import { tokensOf } from '../people/tokens.ts'
import { isDatabaseAway } from '../store/database.ts'

/** Without any hint a right is looked at again after this long: a hint may be lost, and time passes without one. */
const LOOK_AGAIN_MS = 2_000

/** Answers and uploads that last end with the right they stand on: token revoked or expired, or its role too narrow. */
export interface Rights {
  hold(caller: Caller, right: Right, answer: ServerResponse): void
  stop(): void
}

interface Held {
  right: Right
  answer: ServerResponse
}

export function createRights(context: Context): Rights {
  const byToken = new Map<string, { held: Set<Held>; off: () => void }>()

  async function look(ids: string[]): Promise<void> {
    if (ids.length === 0) return
    const rows = await tokensOf(context.db, ids)
    for (const id of ids) {
      const row = rows.find((each) => each.id === id)
      const caller = row && callerOf(row, context.now())
      for (const { right, answer } of byToken.get(id)?.held ?? [])
        if (!caller || 'refusal' in caller || !mayCall(caller, right)) answer.destroy()
    }
  }

  const lookSafely = (ids: string[]) =>
    look(ids).catch((error: unknown) =>
      context.log[isDatabaseAway(error) ? 'debug' : 'error'](
        { err: error },
        'open streams are looked at later',
      ),
    )
  const timer = setInterval(() => void lookSafely([...byToken.keys()]), LOOK_AGAIN_MS)
  timer.unref()

  return {
    hold({ tokenId }, right, answer) {
      if (answer.destroyed) return
      const of = byToken.get(tokenId) ?? {
        held: new Set(),
        off: context.hub.on(`token:${tokenId}`, () => void lookSafely([tokenId])),
      }
      byToken.set(tokenId, of)
      const held = { right, answer }
      of.held.add(held)
      answer.once('close', () => {
        of.held.delete(held)
        if (of.held.size > 0 || byToken.get(tokenId) !== of) return
        of.off()
        byToken.delete(tokenId)
      })
    },
    stop() {
      clearInterval(timer)
      for (const { off } of byToken.values()) off()
      byToken.clear()
    },
  }
}
