import type { Db } from '../store/database.ts'
import { notFound } from '../errors.ts'

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

export async function installView(db: Db, id: string) {
  const row = await db
    .selectFrom('install')
    .innerJoin('app', 'app.id', 'install.app_id')
    .selectAll('install')
    .select('app.name as app')
    .where('install.id', '=', id)
    .executeTakeFirstOrThrow()
  const agent = await db
    .selectFrom('agent')
    .selectAll()
    .where('install_id', '=', id)
    .where('status', '=', 'enrolled')
    .executeTakeFirst()
  const components = await db
    .selectFrom('install_component')
    .selectAll()
    .where('install_id', '=', id)
    .orderBy('component')
    .execute()
  const run = await db
    .selectFrom('run')
    .select('id')
    .where('install_id', '=', id)
    .where('status', '=', 'active')
    .executeTakeFirst()
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
    agent: agent
      ? {
          id: agent.id,
          connected: agent.session_id !== null,
          lastSeenAt: agent.last_seen_at,
          version: agent.version,
          pausedSince: agent.paused_at,
        }
      : null,
    components: components.map((c) => ({
      name: c.component,
      status: c.status,
      artifact: c.artifact_digest,
      deployedAt: c.deployed_at,
      outputs: c.outputs,
      drift: c.drift,
    })),
    activeRun: run?.id ?? null,
    createdAt: row.created_at,
  }
}
