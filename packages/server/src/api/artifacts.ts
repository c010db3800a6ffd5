import { registryUsage } from '@tenon/oci'
import type { CallOutput } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { ApiFailure, notFound } from '../errors.ts'
import { collectVendorGarbage } from '../artifacts/collect-garbage.ts'
import { retryBuild } from '../builds/create.ts'
import { describeArtifact } from '../artifacts/describe-artifact.ts'
import { createRegistryLogin, endRegistryLogin } from '../artifacts/registry-logins.ts'
import { buildView, findApp } from './apps.ts'
import { pageOf, type Handlers } from './handler.ts'

const HOUR_MS = 3_600_000

export const artifactHandlers = {
  'builds.retry': async ({ context, params, caller }) =>
    buildView(context.db, await retryBuild(context, params.id, caller)),
  'artifacts.list': async ({ context, query }) => {
    const app = query.app === undefined ? undefined : await findApp(context.db, query.app)
    const rows = await artifacts(context)
      .$if(app !== undefined, (q) => q.where('app.id', '=', app!.id))
      .$if(query.component !== undefined, (q) => q.where('build.component', '=', query.component!))
      .$if(query.after !== undefined, (q) => q.where('build.id', '<', query.after!))
      .orderBy('build.id', 'desc')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row)
    return { items: await Promise.all(page.items.map((row) => summary(context, row))), next: page.next }
  },
  'artifacts.get': async ({ context, params }) => {
    const { ref } = params
    const row = await artifacts(context)
      .where((eb) => eb.or([eb('build.id', '=', ref), eb('build.artifact_digest', '=', ref)]))
      .orderBy('build.id', 'desc')
      .limit(1)
      .executeTakeFirst()
    const described = row && (await describeArtifact(context, row.repository!, row.digest!))
    if (!described) throw notFound('artifact', ref)
    const installed = await installsOf(context, row.repository!, row.digest!)
    return { ...(await summary(context, row)), ...described, installed }
  },
  'registry.usage': async ({ context }) => registryUsage(context.registry.storage),
  'registry.login': async ({ context, body, caller }) =>
    createRegistryLogin(context, caller, body.expiresInSeconds),
  'registry.logout': async ({ context, params: { id }, caller }) => {
    if (await endRegistryLogin(context, caller, id)) return { id }
    throw new ApiFailure('not_found', `you have no registry login ${id}`, {
      remedy: 'It has been over for a day, or somebody else’s token made it.',
    })
  },
  'registry.gc': async ({ context, body, caller }) =>
    collectVendorGarbage(context, { dryRun: body.dryRun, graceMs: body.graceHours * HOUR_MS }, caller),
} satisfies Partial<Handlers>

function artifacts(context: Context) {
  return context.db
    .selectFrom('build')
    .innerJoin('app', 'app.id', 'build.app_id')
    .select(['build.id', 'build.component', 'build.finished_at', 'build.created_at', 'app.name as app'])
    .select(['build.artifact_repository as repository', 'build.artifact_digest as digest'])
    .where('build.status', '=', 'succeeded')
    .where('build.artifact_digest', 'is not', null)
    .where('build.artifact_repository', 'is not', null)
}

type ArtifactRow = Awaited<ReturnType<ReturnType<typeof artifacts>['executeTakeFirstOrThrow']>>

async function summary(
  context: Context,
  row: ArtifactRow,
): Promise<CallOutput<'artifacts.list'>['items'][number]> {
  const { id, app, component } = row
  const [repository, digest] = [row.repository!, row.digest!]
  const installed = await installsOf(context, repository, digest)
  const createdAt = row.finished_at ?? row.created_at
  return { id, app, component, repository, digest, createdAt, installs: installed.length }
}

async function installsOf(context: Context, repository: string, digest: string) {
  const rows = await context.db
    .selectFrom('install_component')
    .innerJoin('install', 'install.id', 'install_component.install_id')
    .select(['install.name as install', 'install_component.component', 'install_component.deployed_at'])
    .where('install_component.artifact_repository', '=', repository)
    .where('install_component.artifact_digest', '=', digest)
    .where('install_component.deployed_at', 'is not', null)
    .orderBy('install.name')
    .execute()
  return rows.map(({ install, component, deployed_at }) => ({ install, component, deployedAt: deployed_at }))
}
