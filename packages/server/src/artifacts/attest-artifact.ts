import {
  keptManifest,
  ANNOTATIONS,
  parseClosure,
  provenanceStatement,
  SERVER_CHAIN,
  signatureStatement,
  signStatement,
  type Json,
  type Material,
  type ProvenanceFacts,
} from '@tenon/core'
import type { AttestationRequest, JobCredential } from '@tenon/protocol'
import { parseManifest, type Digest, type OciManifest } from '@tenon/oci'
import type { Context } from '../context.ts'
import type { Tx } from '../store/transaction.ts'

/** Signs what a build pushed into its own repository: that it is ours, and what it was made of. */
export async function attestArtifact(
  context: Context,
  tx: Tx,
  job: { id: string; manifest: string; manifest_digest: string; started_at: string | null },
  agentId: string,
  request: AttestationRequest,
): Promise<{ ok: true; credential: JobCredential } | { ok: false; message: string }> {
  const manifest = keptManifest(job.manifest)
  const build = manifest.operations.find(({ operation }) => operation === 'build')
  const target = build?.config['repository']
  const repository = typeof target === 'string' ? target : ''
  const digest = request.digest as Digest
  const found = await context.registry.storage.getManifest(repository, digest)
  if (!build || !found) return { ok: false, message: `${repository} does not hold ${digest}` }
  const facts: ProvenanceFacts = {
    serverId: context.serverId,
    buildType: build.plugin.name,
    external: {
      repository,
      component: build.component,
      source: build.config['source'] ?? null,
    },
    internal: { manifestDigest: job.manifest_digest },
    materials: [
      ...build.artifacts.map((artifact) => materialOf(artifact.repository, artifact.digest)),
      ...(build.plugin.digest ? [materialOf(build.plugin.repository, build.plugin.digest)] : []),
      ...request.materials,
      ...closureOf(parseManifest(found.mediaType, found.bytes)),
    ],
    invocationId: job.id,
    ...(job.started_at ? { startedOn: job.started_at } : {}),
    finishedOn: tx.at,
  }
  const bundles = signBundles(context, { repository, digest }, facts)
  tx.audit(SERVER_CHAIN, {
    actor: { type: 'server', id: context.serverId },
    action: 'artifact.signed',
    subject: { type: 'artifact', id: `${repository}@${digest}` },
    outcome: 'ok',
    manifestDigest: job.manifest_digest,
    details: {
      jobId: job.id,
      agentId,
      keyId: context.keys.current().keyId,
      materials: facts.materials as unknown as Json,
    },
  })
  const subject = { digest, mediaType: found.mediaType, size: found.bytes.byteLength }
  return { ok: true, credential: { want: 'attestation', repository, subject, bundles } }
}

/** With the tenant's current key: a signature that plain cosign finds, and the provenance. */
export function signBundles(
  context: Pick<Context, 'keys'>,
  subject: { repository: string; digest: string },
  facts: ProvenanceFacts,
): { predicateType: string; text: string }[] {
  const { keyId, key } = context.keys.current()
  return [signatureStatement(subject), provenanceStatement(subject, facts)].map((statement) => ({
    predicateType: statement.predicateType,
    text: signStatement(statement, keyId, key.sign),
  }))
}

function closureOf(manifest: OciManifest): Material[] {
  const images = parseClosure(manifest.annotations?.[ANNOTATIONS.closure]) ?? []
  return images.map(({ image, digest }) => materialOf(image, digest))
}

const materialOf = (uri: string, digest: string): Material => ({
  uri,
  digest: { sha256: digest.replace(/^sha256:/, '') },
})
