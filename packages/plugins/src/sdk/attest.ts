import { BUNDLE_ANNOTATIONS, bundleTitle, type Json, type Material } from '@tenon/core'
import { isDigest, pushArtifact, type RegistryClient } from '@tenon/oci'
import { MEDIA_TYPES, type AttestationRequest } from '@tenon/protocol'
import type { OperationContext, OperationResult } from './plugin.ts'

const MAX_MATERIALS = 200

/** Pure: what a build says it pushed; undefined when it pushed nothing that can be signed. */
export function pushedBy(result: OperationResult): { repository: string; digest: string } | undefined {
  const { repository, digest } = result.data
  if (!result.ok || typeof repository !== 'string' || typeof digest !== 'string') return undefined
  return { repository, digest }
}

/** Has the server sign what a build pushed, and puts signature and provenance beside it as cosign does. */
export async function attest(
  context: Pick<OperationContext, 'api' | 'signal' | 'log'>,
  client: RegistryClient,
  result: OperationResult,
): Promise<void> {
  const pushed = pushedBy(result)
  if (!pushed || !isDigest(pushed.digest)) return
  const { repository } = pushed
  const { api, signal } = context
  const found = await client.getManifest(repository, pushed.digest, { signal })
  const { digest, mediaType, size } = found
  const request: AttestationRequest = { digest, mediaType, size, materials: materialsOf(result) }
  const { bundles } = await api.attestation(request)
  for (const { predicateType, text } of bundles) {
    await pushArtifact({
      client,
      repository,
      artifactType: MEDIA_TYPES.bundle,
      layers: [
        { mediaType: MEDIA_TYPES.bundle, annotations: bundleTitle(predicateType), bytes: Buffer.from(text) },
      ],
      annotations: {
        [BUNDLE_ANNOTATIONS.content]: 'dsse-envelope',
        [BUNDLE_ANNOTATIONS.predicateType]: predicateType,
      },
      subject: { mediaType, digest, size },
      signal,
    })
  }
  context.log(`signed ${repository}@${digest}, ${bundles.length} statements`)
}

/** Pure: only the job knows which commit a branch was at, and what else a plugin says it used. */
export function materialsOf({ data }: OperationResult): Material[] {
  const told = Array.isArray(data['materials']) ? data['materials'].filter(isMaterial) : []
  return [...fromGit(data['source']), ...told].slice(0, MAX_MATERIALS)
}

function fromGit(source: Json | undefined): Material[] {
  if (!isRecord(source)) return []
  const { repo, commit } = source
  const isCommit = typeof commit === 'string' && /^[0-9a-f]{40,64}$/.test(commit)
  if (!isCommit || typeof repo !== 'string') return []
  return [{ uri: `git+${repo}`.slice(0, 500), digest: { gitCommit: commit } }]
}

function isMaterial(value: Json): value is Json & Material {
  if (!isRecord(value) || typeof value['uri'] !== 'string' || value['uri'].length > 500) return false
  const { digest } = value
  return (
    isRecord(digest ?? null) &&
    Object.entries(digest as object).every(
      ([name, text]) => name.length <= 32 && typeof text === 'string' && text.length <= 200,
    )
  )
}

function isRecord(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
