import type { Context } from '../context.ts'

export interface Heard {
  sessionId: string
  /** Bytes of logs that the agent had no room for. */
  dropped: number
}

/** Whoever is heard is connected, even if another process took this one for dead while the database was away. */
export async function recordHeard(context: Context, entries: readonly [string, Heard][]): Promise<void> {
  await context.pool.query(
    `update agent set last_seen_at = $1, dropped = d.dropped,
       session_id = coalesce(agent.session_id, d.session_id), process_id = coalesce(agent.process_id, $2)
     from unnest($3::text[], $4::bigint[], $5::text[]) as d(id, dropped, session_id) where agent.id = d.id`,
    [
      new Date(context.now()).toISOString(),
      context.processId,
      entries.map(([id]) => id),
      entries.map(([, heard]) => heard.dropped),
      entries.map(([, heard]) => heard.sessionId),
    ],
  )
}

/** The agent is no longer connected, unless a newer session says so. What fails here, the watch over the processes does. */
export async function forgetSession(
  context: Context,
  session: { agentId: string; sessionId: string },
): Promise<void> {
  await context.db
    .updateTable('agent')
    .set({ session_id: null, process_id: null, last_seen_at: new Date(context.now()).toISOString() })
    .where('id', '=', session.agentId)
    .where('session_id', '=', session.sessionId)
    .execute()
    .catch((error: unknown) =>
      context.log.debug({ err: error }, 'the end of a session was not recorded; the watch does it'),
    )
}
