import type { CallOutput } from '@tenon/protocol'
import { sql } from 'kysely'
import { notFound } from '../errors.ts'
import type { Db } from '../store/database.ts'
import { anyOf } from '../store/statements.ts'

export type FoundInstall = Awaited<ReturnType<typeof findInstall>>
type View = CallOutput<'installs.get'>

/** By name or id. */
export async function findInstall(db: Db, ref: string) {
  const row = await db
    .selectFrom('install')
    .selectAll()
    .where((eb) => eb.or([eb('name', '=', ref), eb('id', '=', ref)]))
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  if (!row) throw notFound('install', ref)
  return row
}

interface Filter {
  appId?: string | undefined
  after?: string | undefined
  limit: number
}

export function listInstalls(db: Db, { appId, after, limit }: Filter): Promise<{ id: string }[]> {
  return db
    .selectFrom('install')
    .select('id')
    .where('deleted_at', 'is', null)
    .$if(appId !== undefined, (q) => q.where('app_id', '=', appId!))
    .$if(after !== undefined, (q) => q.where('id', '>', after!))
    .orderBy('id')
    .limit(limit)
    .execute()
}

export async function installView(db: Db, id: string): Promise<View> {
  return (await installViews(db, [id]))[0]!
}

/** In the order of the ids, in as many statements for one as for a page. */
export async function installViews(db: Db, ids: readonly string[]): Promise<View[]> {
  if (ids.length === 0) return []
  const [installs, agents, components, runs] = await Promise.all([
    db
      .selectFrom('install')
      .innerJoin('app', 'app.id', 'install.app_id')
      .selectAll('install')
      .select('app.name as app')
      .where('install.id', '=', anyOf(ids))
      .execute(),
    agentsOf(db, ids),
    componentsOf(db, ids),
    activeRunsOf(db, ids),
  ])
  const byId = new Map(installs.map((row) => [row.id, row]))
  return ids.map((id) => {
    const row = byId.get(id)!
    return {
      id: row.id,
      name: row.former_name ?? row.name,
      app: row.app,
      sandbox: row.sandbox_type,
      status: row.status,
      approval: row.approval,
      inputs: row.inputs,
      toggles: row.toggles,
      overrides: row.overrides,
      agent: agents.get(id) ?? null,
      components: components.get(id) ?? [],
      activeRun: runs.get(id) ?? null,
      createdAt: row.created_at,
    }
  })
}

async function agentsOf(db: Db, ids: readonly string[]): Promise<Map<string, NonNullable<View['agent']>>> {
  const rows = await db
    .selectFrom('agent')
    .select(['id', 'install_id', 'session_id', 'last_seen_at', 'version', 'paused_at'])
    .where(sql<boolean>`install_id = any(${ids})`)
    .where('status', '=', 'enrolled')
    .execute()
  return new Map(
    rows.map((agent) => [
      agent.install_id!,
      {
        id: agent.id,
        connected: agent.session_id !== null,
        lastSeenAt: agent.last_seen_at,
        version: agent.version,
        pausedSince: agent.paused_at,
      },
    ]),
  )
}

async function componentsOf(db: Db, ids: readonly string[]): Promise<Map<string, View['components']>> {
  const rows = await db
    .selectFrom('install_component')
    .selectAll()
    .where('install_id', '=', anyOf(ids))
    .orderBy('component')
    .execute()
  const byInstall = new Map<string, View['components']>(ids.map((id) => [id, []]))
  for (const row of rows)
    byInstall.get(row.install_id)!.push({
      name: row.component,
      status: row.status,
      artifact: row.artifact_digest,
      deployedAt: row.deployed_at,
      outputs: row.outputs,
      drift: row.drift,
    })
  return byInstall
}

async function activeRunsOf(db: Db, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('run')
    .select(['id', 'install_id'])
    .where('install_id', '=', anyOf(ids))
    .where('status', '=', 'active')
    .execute()
  return new Map(rows.map((run) => [run.install_id, run.id]))
}
