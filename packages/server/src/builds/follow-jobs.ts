import { keptManifest } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { EndedJob, Ending, JobFollower } from '../ground/followers.ts'
import { createJob } from '../jobs/create.ts'
import type { LockedJob } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'

/** What becomes of a build by what becomes of its job. */
export const followBuildJobs: JobFollower = {
  requireMayEnd: async () => undefined,
  started(tx, jobs) {
    const builds = jobs.flatMap(({ build_id: id }) => id ?? [])
    if (builds.length > 0)
      tx.write(sql`update build set status = 'running' where id = any(${builds}) and status = 'queued'`)
  },
  ended: async (_context, tx, ended) => endBuilds(tx, ended),
  lapsed: buildAnew,
  revived: (tx, job) =>
    tx.write(sql`update build set job_id = ${job.id}, status = 'running' where id = ${job.build_id}`),
}

function endBuilds(tx: Tx, ended: readonly EndedJob[]): void {
  const builds = ended.map(({ job, ending }) => ({ id: job.build_id!, ...endOf(job, ending) }))
  tx.write(sql`
    update build set status = b.status, message = b.message, artifact_digest = b.digest,
      artifact_repository = b.repository, finished_at = ${tx.at}
    from unnest(${builds.map((b) => b.id)}::text[], ${builds.map((b) => b.status)}::text[],
      ${builds.map((b) => b.message)}::text[], ${builds.map((b) => b.digest)}::text[],
      ${builds.map((b) => b.repository)}::text[]) as b(id, status, message, digest, repository)
    where build.id = b.id`)
  for (const build of builds) tx.nudge(`build:${build.id}`)
}

/** Pure: a build that ended well has named its artifact, in the repository that it was told. */
function endOf({ build_repository: told }: LockedJob, { outcome, message, result }: Ending) {
  const { digest, repository } = result
  const none = { digest: null, repository: null }
  if (outcome !== 'succeeded') return { status: outcome, message, ...none }
  if (typeof digest !== 'string' || typeof repository !== 'string')
    return { status: 'failed', message: 'the build job ended well but named no artifact', ...none }
  if (repository === told) return { status: outcome, message, digest, repository }
  const where = `the build job named an artifact in ${repository}, but its manifest says ${told}`
  return { status: 'failed', message: `${where}; build again`, ...none }
}

async function buildAnew(context: Context, tx: Tx, job: LockedJob): Promise<void> {
  const buildId = job.build_id!
  const row = await tx.db
    .selectFrom('job')
    .select('manifest')
    .where('id', '=', job.id)
    .executeTakeFirstOrThrow()
  const { operations, limits, role, network, requires } = keptManifest(row.manifest)
  const plan = { kind: job.kind, role: job.role, installId: job.install_id, operations, limits }
  const jobId = createJob(context, tx, { ...plan, cloudRole: role, network, requires }, { buildId })
  tx.write(tx.db.updateTable('build').set({ job_id: jobId }).where('id', '=', buildId))
}
