import { sql } from 'kysely'
import type { InstallFollower } from '../ground/followers.ts'

/** The agents of an install that is gone are done. */
export const followInstalls: InstallFollower = {
  async removed(context, tx, by) {
    const { rows } = await sql<{ id: string; install_id: string }>`
      update agent set status = 'revoked'
      where install_id = any(${by.map((run) => run.install_id)}) and status = 'enrolled'
      returning id, install_id`.execute(tx.db)
    for (const { id, install_id } of rows) {
      tx.audit(install_id, {
        actor: { type: 'server', id: context.serverId },
        action: 'agent.revoked',
        subject: { type: 'agent', id },
        outcome: 'ok',
        manifestDigest: null,
        details: { run: by.find((run) => run.install_id === install_id)!.id },
      })
      tx.nudge(`agent:${id}`)
    }
  },
  deleted: (tx, installId) =>
    tx.write(sql`
      update join_token set expires_at = ${tx.at}
      where install_id = ${installId} and used_at is null and expires_at > ${tx.at}`),
}
