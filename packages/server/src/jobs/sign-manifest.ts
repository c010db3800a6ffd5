import {
  defaultNetwork,
  documentDigest,
  KIND_RULES,
  nestManifest,
  requiredByNetwork,
  signDocument,
  type AgentRole,
  type JobKind,
  type JobNetwork,
  type ManifestLimits,
  type PlannedOperation,
  type Requirement,
} from '@tenon/core'
import { isoNow, type Context } from '../context.ts'
import { sha256 } from '../crypto.ts'

/** What a job is about, before it has an id: who runs it, and what it may do. */
export interface JobPlan {
  kind: JobKind
  role: AgentRole
  installId: string | null
  operations: PlannedOperation[]
  /** What was asked for or, of a job that is signed again, what was decided; the rest by kind and component. */
  limits?: { [K in keyof ManifestLimits]?: number | undefined }
  cloudRole?: string | null | undefined
  network?: JobNetwork | undefined
  /** Of a job that is signed again, what was decided. What was asked for narrows; what is usual an older agent may leave open. */
  requires?: readonly Requirement[] | undefined
}

const MiB = 1_048_576
const LIMITS: Record<JobKind, ManifestLimits> = {
  build: { memoryBytes: 2048 * MiB, cpus: 2, pids: 1024, timeoutSeconds: 3600, graceSeconds: 10 },
  sync: { memoryBytes: 512 * MiB, cpus: 1, pids: 128, timeoutSeconds: 3600, graceSeconds: 5 },
  plan: { memoryBytes: 1024 * MiB, cpus: 1, pids: 512, timeoutSeconds: 1800, graceSeconds: 15 },
  deploy: { memoryBytes: 1024 * MiB, cpus: 1, pids: 512, timeoutSeconds: 1800, graceSeconds: 15 },
  destroy: { memoryBytes: 1024 * MiB, cpus: 1, pids: 512, timeoutSeconds: 1800, graceSeconds: 15 },
  sandbox: { memoryBytes: 1024 * MiB, cpus: 1, pids: 512, timeoutSeconds: 3600, graceSeconds: 30 },
  action: { memoryBytes: 512 * MiB, cpus: 1, pids: 256, timeoutSeconds: 1800, graceSeconds: 10 },
  logs: { memoryBytes: 256 * MiB, cpus: 0.5, pids: 64, timeoutSeconds: 3600, graceSeconds: 2 },
  debug: { memoryBytes: 512 * MiB, cpus: 1, pids: 256, timeoutSeconds: 3600, graceSeconds: 5 },
}

/** Signed when the job becomes ready, and again under a new fencing number when it goes back to the queue. */
export function signManifest(context: Context, jobId: string, fence: number, plan: JobPlan) {
  const issuedAt = isoNow(context)
  const expiresAt = isoNow(context, context.config.manifestTtlSeconds)
  const network = plan.network ?? defaultNetwork(plan.kind, plan.operations)
  const requires = plan.requires ?? (plan.network ? requiredByNetwork(plan.network) : [])
  const manifest = nestManifest(
    { jobId, fence, issuedAt, notBefore: issuedAt, expiresAt },
    {
      serverId: context.serverId,
      kind: plan.kind,
      target: { role: plan.role, installId: plan.role === 'install' ? plan.installId : null },
      role: plan.cloudRole === undefined ? KIND_RULES[plan.kind].role : plan.cloudRole,
      network,
      requires: [...requires],
      operations: plan.operations,
      limits: limitsOf(plan),
    },
    sha256,
  )
  const { keyId, key } = context.keys.current()
  const document = signDocument('job-manifest/1', manifest, keyId, key.sign)
  return {
    manifest: document.text,
    manifest_issued_at: issuedAt,
    manifest_key_id: document.keyId,
    manifest_signature: document.signature,
    manifest_digest: documentDigest(document.text, sha256),
    requires: requires.map(({ feature }) => feature),
  }
}

/** A component may ask for other limits; they are part of what is signed. */
function limitsOf(plan: JobPlan): ManifestLimits {
  const component = plan.operations[0]?.config['component'] as { limits?: JobPlan['limits'] } | undefined
  const limits = { ...LIMITS[plan.kind] }
  for (const key of Object.keys(limits) as (keyof ManifestLimits)[]) {
    const value = plan.limits?.[key] ?? component?.limits?.[key]
    if (typeof value === 'number' && value > 0) limits[key] = key === 'cpus' ? value : Math.ceil(value)
  }
  return limits
}

export function poolOf(role: AgentRole, installId: string | null): string {
  return role === 'install' ? `install:${installId}` : role
}
