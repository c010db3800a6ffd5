import type { CallOutput } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { notFound } from '../errors.ts'
import type { Db } from '../store/database.ts'
import { describeArtifact } from './describe-artifact.ts'

interface Filter {
  appId?: string | undefined
  component?: string | undefined
  after?: string | undefined
  limit: number
}

export type ArtifactRow = Awaited<ReturnType<ReturnType<typeof artifacts>['executeTakeFirstOrThrow']>>
type Summary = CallOutput<'artifacts.list'>['items'][number]

/** Newest first. */
export function listArtifacts(db: Db, { appId, component, after, limit }: Filter): Promise<ArtifactRow[]> {
  return artifacts(db)
    .$if(appId !== undefined, (q) => q.where('app.id', '=', appId!))
    .$if(component !== undefined, (q) => q.where('build.component', '=', component!))
    .$if(after !== undefined, (q) => q.where('build.id', '<', after!))
    .orderBy('build.id', 'desc')
    .limit(limit)
    .execute()
}

export async function artifactSummaries(db: Db, rows: readonly ArtifactRow[]): Promise<Summary[]> {
  const installed = await installsOf(db, rows)
  return rows.map((row) => summary(row, installed.get(keyOf(row))?.length ?? 0))
}

/** By its digest, or the id of its build. */
export async function artifactView(context: Context, ref: string) {
  const row = await artifacts(context.db)
    .where((eb) => eb.or([eb('build.id', '=', ref), eb('build.artifact_digest', '=', ref)]))
    .orderBy('build.id', 'desc')
    .limit(1)
    .executeTakeFirst()
  const described = row && (await describeArtifact(context, row.repository!, row.digest!))
  if (!described) throw notFound('artifact', ref)
  const installed = (await installsOf(context.db, [row])).get(keyOf(row)) ?? []
  return { ...summary(row, installed.length), ...described, installed }
}

function artifacts(db: Db) {
  return db
    .selectFrom('build')
    .innerJoin('app', 'app.id', 'build.app_id')
    .select(['build.id', 'build.component', 'build.finished_at', 'build.created_at', 'app.name as app'])
    .select(['build.artifact_repository as repository', 'build.artifact_digest as digest'])
    .where('build.status', '=', 'succeeded')
    .where('build.artifact_digest', 'is not', null)
    .where('build.artifact_repository', 'is not', null)
}

function summary({ id, app, component, repository, digest, ...at }: ArtifactRow, installs: number): Summary {
  const createdAt = at.finished_at ?? at.created_at
  return { id, app, component, repository: repository!, digest: digest!, createdAt, installs }
}

type Installed = { install: string; component: string; deployedAt: string | null }

/** Where each artifact is deployed, by repository and digest. */
async function installsOf(db: Db, of: readonly ArtifactRow[]): Promise<Map<string, Installed[]>> {
  if (of.length === 0) return new Map()
  const { rows } = await sql<Installed & { repository: string; digest: string }>`
    select c.artifact_repository as repository, c.artifact_digest as digest, install.name as install, c.component,
      c.deployed_at as "deployedAt"
    from unnest(${of.map(({ repository }) => repository)}::text[], ${of.map(({ digest }) => digest)}::text[])
      as a(repository, digest)
    join install_component as c on c.artifact_repository = a.repository and c.artifact_digest = a.digest
    join install on install.id = c.install_id
    where c.deployed_at is not null order by install.name`.execute(db)
  const byArtifact = new Map<string, Installed[]>()
  for (const { repository, digest, ...installed } of rows) {
    const key = keyOf({ repository, digest })
    byArtifact.set(key, [...(byArtifact.get(key) ?? []), installed])
  }
  return byArtifact
}

function keyOf({ repository, digest }: { repository: string | null; digest: string | null }): string {
  return `${repository}@${digest}`
}
