import { makeId, type IdKind } from '@tenon/core'
import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { Identity } from './lean-agent.ts'

/**
 * Rows straight into the database: an app that is built, installs, and agents that are enrolled. The handshake, the
 * jobs and all that follows from them go the real way.
 */
export interface SeededApp {
  id: string
  name: string
}

const AT = () => new Date().toISOString()
const newId = (kind: IdKind) => makeId(kind, Date.now(), randomBytes(10))

export async function seedApp(
  db: pg.Pool,
  name: string,
  components: { name: string; config: object }[],
): Promise<SeededApp> {
  const id = newId('app')
  const version = newId('appVersion')
  const content = {
    name,
    displayName: name,
    description: '',
    components: components.map((c) => ({ name: c.name, type: 'script', dependencies: [], config: c.config })),
  }
  await db.query('insert into app (id, name, created_at) values ($1, $2, $3)', [id, name, AT()])
  await db.query(
    'insert into app_version (id, app_id, number, content, digest, created_at) values ($1, $2, 1, $3, $4, $5)',
    [version, id, JSON.stringify(content), digestOf('1'), AT()],
  )
  for (const component of components) {
    await db.query(
      `insert into build (id, app_id, app_version_id, component, status, source_digest, artifact_repository,
         artifact_digest, created_at, finished_at) values ($1, $2, $3, $4, 'succeeded', $5, $6, $7, $8, $8)`,
      [
        newId('build'),
        id,
        version,
        component.name,
        digestOf('5'),
        `apps/${name}/${component.name}`,
        digestOf('a'),
        AT(),
      ],
    )
  }
  return { id, name }
}

export async function seedInstalls(
  db: pg.Pool,
  app: SeededApp,
  prefix: string,
  count: number,
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId('install'))
  await db.query(
    `insert into install (id, name, app_id, status, sandbox_type, sandbox_config, inputs, created_at)
     select id, $2 || n, $3, 'active', 'none', '{}', '{}', $4 from unnest($1::text[]) with ordinality as i(id, n)`,
    [ids, `${prefix}-`, app.id, AT()],
  )
  return ids
}

/** One agent per public key: of these installs, or build agents when there are none. */
export async function seedAgents(
  db: pg.Pool,
  publicKeys: string[],
  installs: string[] | undefined,
  slots: number,
): Promise<Identity[]> {
  const role = installs ? 'install' : 'build'
  const identities = publicKeys.map((_, index) => ({
    agentId: newId('agent'),
    pool: installs ? `install:${installs[index]}` : 'build',
    slots,
  }))
  await db.query(
    `insert into agent (id, role, install_id, pool, public_key, status, version, hostname, created_at)
     select id, $5, install, pool, key, 'enrolled', '0.1.0', 'bench', $6
     from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as a(id, install, pool, key)`,
    [
      identities.map((i) => i.agentId),
      publicKeys.map((_, index) => installs?.[index] ?? null),
      identities.map((i) => i.pool),
      publicKeys,
      role,
      AT(),
    ],
  )
  return identities
}

function digestOf(digit: string): string {
  return `sha256:${digit.repeat(64)}`
}
