import { sql, type Selectable } from 'kysely'
import type { Context } from '../context.ts'
import { notFound } from '../errors.ts'
import type { Db } from '../store/database.ts'
import { shownName } from '../store/names.ts'
import type { Database } from '../store/schema.ts'
import { anyOf } from '../store/statements.ts'
import { keyChangesOf } from './keys.ts'
import { PROCESS_DEAD_SECONDS } from './processes.ts'

type Row = Selectable<Database['agent']>

export function listAgents(
  db: Db,
  { after, limit }: { after?: string | undefined; limit: number },
): Promise<Row[]> {
  return db
    .selectFrom('agent')
    .selectAll()
    .$if(after !== undefined, (q) => q.where('id', '>', after!))
    .orderBy('id')
    .limit(limit)
    .execute()
}

export async function agentView(context: Context, id: string) {
  const row = await context.db.selectFrom('agent').selectAll().where('id', '=', id).executeTakeFirst()
  if (!row) throw notFound('agent', id)
  return (await agentViews(context, [row]))[0]!
}

/** In as many statements for one as for a page. */
export async function agentViews({ db, now }: Context, rows: readonly Row[]) {
  if (rows.length === 0) return []
  const ids = rows.map(({ id }) => id)
  const alive = new Date(now() - PROCESS_DEAD_SECONDS * 1000).toISOString()
  const [running, installs, processes] = await Promise.all([
    db
      .selectFrom('job')
      .select((eb) => ['agent_id', eb.fn.countAll<number>().as('n')])
      .where('agent_id', '=', anyOf(ids))
      .where('status', '=', anyOf(['assigned', 'running']))
      .groupBy('agent_id')
      .execute(),
    db
      .selectFrom('install')
      .select(['id', shownName.as('name')])
      .where(sql<boolean>`id = any(${rows.map((row) => row.install_id)}::text[])`)
      .execute(),
    db.selectFrom('server_process').select('id').where('seen_at', '>', alive).execute(),
  ])
  const runningOf = new Map(running.map((row) => [row.agent_id, row.n]))
  const installOf = new Map(installs.map((row) => [row.id, row.name]))
  const living = new Set(processes.map(({ id }) => id))
  return rows.map((row) => ({
    id: row.id,
    role: row.role,
    installId: row.install_id,
    install: installOf.get(row.install_id ?? '') ?? null,
    status: row.status,
    connected: row.session_id !== null && living.has(row.process_id ?? ''),
    lastSeenAt: row.last_seen_at,
    version: row.version,
    hostname: row.hostname,
    runtime: row.runtime,
    slots: row.slots,
    running: runningOf.get(row.id) ?? 0,
    dropped: row.dropped,
    createdAt: row.created_at,
  }))
}

/** Whoever verifies the audit needs every key that an agent has had. */
export async function agentKeyViews(db: Db) {
  const agents = await db.selectFrom('agent').select(['id', 'public_key']).execute()
  const changes = await keyChangesOf(
    db,
    agents.map(({ id }) => id),
  )
  return agents.map(({ id, public_key }) => ({
    agentId: id,
    publicKey: public_key,
    keyChanges: changes.get(id) ?? [],
  }))
}
