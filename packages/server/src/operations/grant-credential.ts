import type { JobManifest } from '@tenon/core'
import type { JobCredential } from '@tenon/protocol'
import { isoNow, type Context } from '../context.ts'
import { transact } from '../store/transaction.ts'
import { chainOf } from './audit-chains.ts'
import { createJoinToken } from './join-tokens.ts'

const REGISTRY_TTL_SECONDS = 600
const JOIN_TTL_SECONDS = 3600

export type Granted = { ok: true; credential: JobCredential } | { ok: false; message: string }

/** A job that holds its lease gets what its manifest names, and nothing more; every grant and refusal is audited. */
export async function grantCredential(
  context: Context,
  agent: { agentId: string },
  request: { jobId: string; fence: number; want: 'registry' | 'join-token' },
): Promise<Granted> {
  return transact(context, async (tx) => {
    const job = await tx.db
      .selectFrom('job')
      .select(['id', 'status', 'fence', 'agent_id', 'kind', 'install_id', 'manifest', 'manifest_digest'])
      .where('id', '=', request.jobId)
      .forShare()
      .executeTakeFirst()
    const holds =
      job &&
      job.agent_id === agent.agentId &&
      job.fence === request.fence &&
      (job.status === 'assigned' || job.status === 'running')
    const allowed = holds && (request.want === 'registry' || job.kind === 'sandbox')
    tx.audit(chainOf(job?.install_id ?? null), {
      actor: { type: 'agent', id: agent.agentId },
      action: allowed ? 'credential.granted' : 'credential.refused',
      subject: { type: 'job', id: request.jobId },
      outcome: allowed ? 'ok' : 'refused',
      manifestDigest: job?.manifest_digest ?? null,
      details: { want: request.want, fence: request.fence },
    })
    if (!allowed) return { ok: false, message: 'this job does not hold a lease that allows it' }
    if (request.want === 'registry')
      return {
        ok: true,
        credential: registryCredential(
          context,
          job.id,
          request.fence,
          JSON.parse(job.manifest) as JobManifest,
        ),
      }
    const token = await createJoinToken(
      context,
      tx,
      { role: 'install', installId: job.install_id, expiresInSeconds: JOIN_TTL_SECONDS },
      { type: 'server', id: context.serverId },
    )
    return { ok: true, credential: { want: 'join-token', ...token } }
  })
}

/** Pull what the manifest names by digest; a build may also push to the one repository its manifest names. */
function registryCredential(
  context: Context,
  jobId: string,
  fence: number,
  manifest: JobManifest,
): JobCredential {
  const actions = new Map<string, Set<'pull' | 'push'>>()
  const allow = (repository: string, action: 'pull' | 'push') =>
    actions.set(repository, (actions.get(repository) ?? new Set()).add(action))
  for (const operation of manifest.operations) {
    if (operation.plugin.digest) allow(operation.plugin.repository, 'pull')
    for (const artifact of operation.artifacts) allow(artifact.repository, 'pull')
    const target = operation.config['repository']
    if (operation.operation === 'build' && typeof target === 'string') {
      allow(target, 'pull')
      allow(target, 'push')
    }
  }
  const repositories = [...actions].map(([name, set]) => ({ name, actions: [...set] }))
  const bearer = context.registry.issueToken(
    { subject: `${jobId}#${fence}`, repositories },
    REGISTRY_TTL_SECONDS,
    context.now(),
  )
  return {
    want: 'registry',
    registry: '/',
    bearer,
    repositories,
    expiresAt: isoNow(context, REGISTRY_TTL_SECONDS),
  }
}
