import { sql } from 'kysely'
import { isoNow, type Context } from '../context.ts'

/** The sessions that this process has. */
interface ConnectedHere {
  sessionIds(): string[]
}

export const PROCESS_DEAD_SECONDS = 20

/** An agent whose session or server process died is not connected any more, whatever its row says. One call is one look. */
export function createProcessWatch(context: Context, sessions: ConnectedHere): () => Promise<void> {
  let missing: ReadonlySet<string> = new Set()
  return async () => {
    await sayAlive(context)
    await forgetAgentsOfDeadProcesses(context)
    missing = await forgetMissingTwice(context, sessions, missing)
  }
}

/** For the one process that a database can have: whatever another one left there died with it. */
export async function forgetOtherProcesses(context: Context): Promise<void> {
  await context.db.deleteFrom('server_process').where('id', '<>', context.processId).execute()
  await sayAlive(context)
  await forgetAgentsOfDeadProcesses(context)
}

async function sayAlive(context: Context): Promise<void> {
  const at = isoNow(context)
  await context.db
    .insertInto('server_process')
    .values({ id: context.processId, started_at: at, seen_at: at })
    .onConflict((c) => c.column('id').doUpdateSet({ seen_at: at }))
    .execute()
}

async function forgetAgentsOfDeadProcesses(context: Context): Promise<void> {
  const dead = isoNow(context, -PROCESS_DEAD_SECONDS)
  await context.db.deleteFrom('server_process').where('seen_at', '<', dead).execute()
  await context.db
    .updateTable('agent')
    .set({ session_id: null, process_id: null })
    .where('process_id', 'not in', (eb) => eb.selectFrom('server_process').select('id'))
    .execute()
}

/**
 * A session is committed before this process has it in memory: one that is missing for the first time may be opening.
 * Answers which are to be gone if the next look misses them too.
 */
async function forgetMissingTwice(
  context: Context,
  sessions: ConnectedHere,
  missingBefore: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ session_id: string }>`
    select session_id from agent
    where process_id = ${context.processId} and session_id <> all(${sessions.sessionIds()})`.execute(
    context.db,
  )
  const here = new Set(sessions.sessionIds())
  const missing = rows.map((row) => row.session_id).filter((id) => !here.has(id))
  const dead = missing.filter((id) => missingBefore.has(id))
  if (dead.length > 0)
    await sql`
      update agent set session_id = null, process_id = null
      where process_id = ${context.processId} and session_id = any(${dead})`.execute(context.db)
  return new Set(missing)
}
