import { sql } from 'kysely'
import { chainOf } from '../audit/chains.ts'
import type { Context } from '../context.ts'
import { notFound } from '../errors.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { transact } from '../store/transaction.ts'

/** Its identity ends: it may not connect any more, and nothing that it has open goes on. */
export async function revokeAgent(context: Context, id: string, caller: Caller): Promise<void> {
  await transact(context, async (tx) => {
    const { rows } = await sql<{ install_id: string | null }>`
      update agent set status = 'revoked' where id = ${id} returning install_id`.execute(tx.db)
    const [agent] = rows
    if (!agent) throw notFound('agent', id)
    tx.audit(chainOf(agent.install_id), {
      actor: actorOf(caller),
      action: 'agent.revoked',
      subject: { type: 'agent', id },
      outcome: 'ok',
      manifestDigest: null,
      details: {},
    })
    tx.nudge(`agent:${id}`)
  })
}
