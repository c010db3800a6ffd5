import { checkBundle, PREDICATES, type BundleProblem } from '@tenon/core'
import { parseManifest, readBlob, type Descriptor, type Digest, type RegistryClient } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { verify } from '../sdk/crypto.ts'
import { PluginError } from '../sdk/errors.ts'

const MAX_BUNDLES = 100
const MAX_BUNDLE_BYTES = 1_048_576

export interface SignedArtifact {
  client: RegistryClient
  repository: string
  digest: Digest
  /** The server's keys that the agent pinned, by id. */
  keys: ReadonlyMap<string, string>
  signal: AbortSignal
}

/**
 * Refuses an artifact unless keys that the agent trusts signed both it and its provenance. The images of its closure
 * are in the manifest that is signed, by digest.
 */
export async function requireSignatures(artifact: SignedArtifact): Promise<{ keyIds: string[] }> {
  const { client, repository, digest, keys, signal } = artifact
  await client.getManifest(repository, digest, { signal })
  const referrers = await client.listReferrers(repository, digest, {
    artifactType: MEDIA_TYPES.bundle,
    signal,
  })
  if (referrers.length === 0) throw missing(artifact)
  const trusted = new Map<string, string>()
  const problems = new Set<BundleProblem>()
  for (const referrer of referrers.slice(0, MAX_BUNDLES)) {
    const text = await readBundleText(artifact, referrer)
    const check = text === undefined ? undefined : checkBundle(text, digest, keys, verify)
    if (check?.ok) trusted.set(check.predicateType, check.keyId)
    else problems.add(check?.problem ?? 'malformed')
  }
  const lacks = Object.values(PREDICATES).filter((predicate) => !trusted.has(predicate))
  if (lacks.length > 0) throw refused(artifact, lacks, problems)
  return { keyIds: [...new Set(trusted.values())] }
}

async function readBundleText(
  { client, repository, signal }: SignedArtifact,
  referrer: Descriptor,
): Promise<string | undefined> {
  const found = await client.getManifest(repository, referrer.digest, { signal })
  const { layers } = parseManifest(found.mediaType, found.bytes)
  const [layer] = layers
  if (layer === undefined || layers.length > 1 || layer.size > MAX_BUNDLE_BYTES) return undefined
  return (await readBlob(client, repository, layer, MAX_BUNDLE_BYTES)).toString('utf8')
}

function missing({ repository, digest }: SignedArtifact): PluginError {
  const message = `${repository}@${digest} carries no signature; nothing of it was taken.`
  return new PluginError('signature_missing', message, REMEDY)
}

const REMEDY = 'Build the component again, so that the server signs it, and deploy that build.'

function refused(
  { repository, digest }: SignedArtifact,
  lacks: string[],
  problems: ReadonlySet<BundleProblem>,
): PluginError {
  const why = problems.size > 0 ? ` (${[...problems].join(', ')})` : ''
  const message = `No key that this install trusts vouches for ${repository}@${digest}: ${lacks.join(' and ')} not found${why}; nothing of it was taken.`
  return new PluginError('signature_refused', message, REMEDY)
}
