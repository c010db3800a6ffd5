import { keptManifest, type JobStatus } from '@tenon/core'
import type { AttestationRequest, JobCredential } from '@tenon/protocol'
import { createJoinToken } from '../agents/join-tokens.ts'
import { attestArtifact } from '../artifacts/attest-artifact.ts'
import { BEARER_SECONDS, grantsOf, issueOneTimeToken, subjectOf } from '../artifacts/registry-tokens.ts'
import { chainOf, concerns } from '../audit/chains.ts'
import { isoNow, type Context } from '../context.ts'
import { shareJob } from '../store/locks.ts'
import { transact, type Tx } from '../store/transaction.ts'

/** One sync reads a few blobs at a time; the registry itself makes those wait that are too many. */
const PACE = { concurrent: 4 }
const JOIN_TTL_SECONDS = 3600

/** Also of one that was held: the word that it has begun may be on its way, on a lane of its own. */
const GRANTED: ReadonlySet<JobStatus> = new Set<JobStatus>(['assigned', 'held', 'running'])

export type Granted = { ok: true; credential: JobCredential } | { ok: false; message: string }

export interface CredentialRequest {
  jobId: string
  fence: number
  want: string
  artifact?: AttestationRequest | undefined
}

/** A job that holds its lease gets what its manifest names, and nothing more; every grant and refusal is audited. */
export async function grantCredential(
  context: Context,
  agent: { agentId: string; installId: string | null },
  request: CredentialRequest,
): Promise<Granted> {
  return transact(context, async (tx) => {
    const job = await shareJob(tx, request.jobId)
    const holds =
      job && job.agent_id === agent.agentId && job.fence === request.fence && GRANTED.has(job.status)
    const allowed = holds && mayHave(job.kind, request)
    const own = job && concerns(job, { id: agent.agentId, installId: agent.installId }) ? job : undefined
    tx.audit(chainOf(own ? own.install_id : agent.installId), {
      actor: { type: 'agent', id: agent.agentId },
      action: allowed ? 'credential.granted' : 'credential.refused',
      subject: { type: 'job', id: request.jobId },
      outcome: allowed ? 'ok' : 'refused',
      manifestDigest: own?.manifest_digest ?? null,
      details: { want: request.want, fence: request.fence },
    })
    if (!allowed) return { ok: false, message: 'this job does not hold a lease that allows it' }
    if (request.want === 'registry')
      return { ok: true, credential: await registryCredential(context, tx, job, agent.agentId) }
    if (request.want === 'attestation')
      return attestArtifact(context, tx, job, agent.agentId, request.artifact!)
    const { joinToken, expiresAt } = await createJoinToken(
      context,
      tx,
      { role: 'install', installId: job.install_id, expiresInSeconds: JOIN_TTL_SECONDS },
      { type: 'server', id: context.serverId },
    )
    return { ok: true, credential: { want: 'join-token', joinToken, expiresAt } }
  })
}

/** Pure: only a sandbox enrols an agent, only a build has something to sign. */
function mayHave(kind: string, { want, artifact }: CredentialRequest): boolean {
  switch (want) {
    case 'registry':
      return true
    case 'join-token':
      return kind === 'sandbox'
    case 'attestation':
      return kind === 'build' && artifact !== undefined
    default:
      return false
  }
}

/** A sync gets what it must first trade for a bearer; other jobs get a bearer for what their manifest names. */
async function registryCredential(
  context: Context,
  tx: Tx,
  job: GrantedJob,
  agentId: string,
): Promise<JobCredential> {
  const grants = grantsOf(keptManifest(job.manifest))
  const answer = { want: 'registry' as const, registry: '/', pace: PACE }
  const repositories = grants.map(({ name, actions }) => ({ name, actions }))
  if (job.kind !== 'sync') {
    const grant = { subject: subjectOf(job.id, job.fence), repositories: grants }
    const bearer = context.registry.issueToken(grant, BEARER_SECONDS, context.now())
    return { ...answer, bearer, repositories, expiresAt: isoNow(context, BEARER_SECONDS) }
  }
  const { expiresAt, ...once } = await issueOneTimeToken(context, tx, job, agentId, grants)
  return { ...answer, bearer: '', repositories, expiresAt, oneTime: { url: '/v2/token', ...once } }
}

interface GrantedJob {
  id: string
  kind: string
  fence: number
  install_id: string | null
  manifest: string
  manifest_digest: string
}
