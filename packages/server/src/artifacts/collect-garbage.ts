import { keptManifest, SERVER_CHAIN } from '@tenon/core'
import { collectGarbage, type GarbageReport } from '@tenon/oci'
import type { Context } from '../context.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { anyOf } from '../store/statements.ts'
import { transact } from '../store/transaction.ts'
import { closureImages } from './registry.ts'

/**
 * Removes what nothing needs: needed are the artifacts of all builds that succeeded, the plugins, and whatever jobs
 * that have not ended name, each with its closure and signatures. What was touched lately stays in any case.
 */
export async function collectVendorGarbage(
  context: Context,
  options: { dryRun: boolean; graceMs: number },
  caller: Caller,
): Promise<GarbageReport> {
  const roots = await neededRoots(context)
  const report = await collectGarbage(context.registry.storage, {
    ...options,
    now: context.now,
    untagged: 'remove',
    isRoot: (repository, digest) => roots.has(`${repository}@${digest}`),
    named: closureImages,
  })
  await transact(context, async (tx) => {
    tx.audit(SERVER_CHAIN, {
      actor: actorOf(caller),
      action: 'registry.garbage_collected',
      subject: { type: 'registry', id: 'vendor' },
      outcome: 'ok',
      manifestDigest: null,
      details: { ...report, graceSeconds: Math.round(options.graceMs / 1000), roots: roots.size },
    })
  })
  return report
}

/** Read before anything is looked at in the registry: what comes later is younger than any grace. */
async function neededRoots({ db }: Context): Promise<Set<string>> {
  const builds = await db
    .selectFrom('build')
    .select(['artifact_repository as repository', 'artifact_digest as digest'])
    .where('status', '=', 'succeeded')
    .execute()
  const plugins = await db.selectFrom('plugin').select(['repository', 'digest']).execute()
  const jobs = await db
    .selectFrom('job')
    .select('manifest')
    .where('status', '=', anyOf(['queued', 'assigned', 'held', 'running', 'lost']))
    .execute()
  const named = jobs.flatMap(({ manifest }) =>
    keptManifest(manifest).operations.flatMap(({ plugin, artifacts }) => [plugin, ...artifacts]),
  )
  return new Set([...builds, ...plugins, ...named].map(({ repository, digest }) => `${repository}@${digest}`))
}
