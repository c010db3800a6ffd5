import type { JobManifest } from '@tenon/core'
import { RegistryRefusal, type Digest, type Grant, type RepositoryGrant } from '@tenon/oci'
import { chainOf } from '../audit/chains.ts'
import { isoNow, type Context } from '../context.ts'
import { hashSecret, randomSecret } from '../crypto.ts'
import { lockRegistryToken, shareJob } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'

/** Long enough for a job to turn round with it, too short to be worth stealing. */
const ONE_TIME_SECONDS = 120
export const BEARER_SECONDS = 300
/** How long a spent or expired token is remembered, so that its reuse can be told from a guess. */
const REMEMBERED_SECONDS = 86_400
const PREFIX = 'tenon-once-'
export const TOKEN_REFUSED = 'registry.token_refused'

/** Pure: what a manifest names by digest, to pull; a build also pushes to the one repository it names. */
export function grantsOf(manifest: JobManifest): RepositoryGrant[] {
  const roots = new Map<string, Set<Digest>>()
  const grants: RepositoryGrant[] = []
  const allow = (repository: string, digest: string) =>
    roots.set(repository, (roots.get(repository) ?? new Set()).add(digest as Digest))
  for (const operation of manifest.operations) {
    const { plugin, artifacts, config } = operation
    if (plugin.digest !== null) allow(plugin.repository, plugin.digest)
    for (const { repository, digest } of artifacts) allow(repository, digest)
    const target = config['repository']
    if (operation.operation === 'build' && typeof target === 'string')
      grants.push({ name: target, actions: ['pull', 'push'] })
  }
  for (const [name, digests] of roots) grants.push({ name, actions: ['pull'], roots: [...digests] })
  return grants
}

export const subjectOf = (jobId: string, fence: number): string => `${jobId}#${fence}`

/** A secret that the job may trade, once and soon, for a bearer of what its manifest names. */
export async function issueOneTimeToken(
  context: Context,
  tx: Tx,
  job: { id: string; fence: number; install_id: string | null; manifest_digest: string },
  agentId: string,
  grants: RepositoryGrant[],
): Promise<{ username: string; password: string; expiresAt: string }> {
  const password = `${PREFIX}${randomSecret()}`
  const expiresAt = isoNow(context, ONE_TIME_SECONDS)
  await tx.db
    .deleteFrom('registry_token')
    .where('expires_at', '<', isoNow(context, -REMEMBERED_SECONDS))
    .execute()
  await tx.db
    .insertInto('registry_token')
    .values({
      secret_hash: hashSecret(password),
      job_id: job.id,
      fence: job.fence,
      grants: JSON.stringify(grants),
      created_at: tx.at,
      expires_at: expiresAt,
    })
    .execute()
  tx.audit(chainOf(job.install_id), {
    actor: { type: 'agent', id: agentId },
    action: 'registry.token_issued',
    subject: { type: 'job', id: job.id },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details: {
      fence: job.fence,
      roots: grants.flatMap(({ name, roots = [] }) => roots.map((digest) => `${name}@${digest}`)),
    },
  })
  return { username: job.id, password, expiresAt }
}

type Refusal = 'unknown' | 'other_job' | 'used' | 'expired' | 'lease'

/** What the registry's token endpoint does with a one-time token; redemptions are audited, refusals audited or counted. */
export async function redeemOneTimeToken(
  context: Context,
  credential: { username: string; password: string },
): Promise<{ bearer: string; expiresInSeconds: number } | undefined> {
  if (!credential.password.startsWith(PREFIX)) return undefined
  const outcome = await transact(context, async (tx) => {
    const token = await lockRegistryToken(tx, hashSecret(credential.password))
    if (!token) return { refused: 'unknown' as const }
    const job = (await shareJob(tx, token.job_id))!
    const refused = (await isEnded(tx, job.agent_id))
      ? 'lease'
      : refusalOf(token, job, credential.username, context.now())
    if (!refused)
      await tx.db
        .updateTable('registry_token')
        .set({ redeemed_at: tx.at })
        .where('secret_hash', '=', token.secret_hash)
        .execute()
    const chain = chainOf(job.install_id)
    // A token that is over is no credential: whoever has one may try it without end.
    if (refused && !context.refusals.admit(credential, chain, TOKEN_REFUSED, refused, context.now()))
      return { refused }
    tx.audit(chain, {
      actor: job.agent_id ? { type: 'agent', id: job.agent_id } : { type: 'server', id: context.serverId },
      action: refused ? TOKEN_REFUSED : 'registry.token_redeemed',
      subject: { type: 'job', id: job.id },
      outcome: refused ? 'refused' : 'ok',
      manifestDigest: job.manifest_digest,
      details: { fence: token.fence, ...(refused ? { reason: refused } : {}) },
    })
    return refused ? { refused } : { grant: grantOf(token) }
  })
  if (outcome.grant === undefined) throw refusal(outcome.refused)
  const bearer = context.registry.issueToken(outcome.grant, BEARER_SECONDS, context.now())
  return { bearer, expiresInSeconds: BEARER_SECONDS }
}

/** Its jobs may run on until they end, and reach nothing of the vendor's meanwhile. */
async function isEnded(tx: Tx, agentId: string | null): Promise<boolean> {
  const query = tx.db
    .selectFrom('agent')
    .select('id')
    .where('id', '=', agentId)
    .where('status', '<>', 'enrolled')
  return (await query.executeTakeFirst()) !== undefined
}

/** Pure. */
function refusalOf(
  token: { job_id: string; fence: number; expires_at: string; redeemed_at: string | null },
  job: { status: string; fence: number },
  username: string,
  nowMs: number,
): Refusal | undefined {
  if (username !== token.job_id) return 'other_job'
  if (token.redeemed_at !== null) return 'used'
  if (nowMs >= Date.parse(token.expires_at)) return 'expired'
  const holds = job.fence === token.fence && (job.status === 'assigned' || job.status === 'running')
  return holds ? undefined : 'lease'
}

const grantOf = (token: { job_id: string; fence: number; grants: RepositoryGrant[] }): Grant => ({
  subject: subjectOf(token.job_id, token.fence),
  repositories: token.grants,
})

const WHY: Record<Refusal, string> = {
  unknown: 'The token is not known here',
  other_job: 'The token was given to another job',
  used: 'The token was used before; ask for another',
  expired: 'The token has expired; ask for another',
  lease: 'The job no longer holds its lease',
}

const refusal = (reason: Refusal): RegistryRefusal => new RegistryRefusal(401, 'UNAUTHORIZED', WHY[reason])
