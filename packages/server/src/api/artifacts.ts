import { registryUsage } from '@tenon/oci'
import { findApp } from '../apps/views.ts'
import { collectVendorGarbage } from '../artifacts/collect-garbage.ts'
import { artifactSummaries, artifactView, listArtifacts } from '../artifacts/list.ts'
import { createRegistryLogin, endRegistryLogin } from '../artifacts/registry-logins.ts'
import { ApiFailure } from '../errors.ts'
import { pageOf, type Handlers } from './handler.ts'

const HOUR_MS = 3_600_000

export const artifactHandlers = {
  'artifacts.list': async ({ context: { db }, query: { app: ref, component, after, limit } }) => {
    const app = ref === undefined ? undefined : await findApp(db, ref)
    const rows = await listArtifacts(db, { appId: app?.id, component, after, limit: limit + 1 })
    const page = pageOf(rows, limit, (row) => row)
    return { items: await artifactSummaries(db, page.items), next: page.next }
  },
  'artifacts.get': async ({ context, params }) => artifactView(context, params.ref),
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
