import { ANNOTATIONS, checkBundle, describeBundle, parseClosure } from '@tenon/core'
import {
  formatPlatform,
  isDigest,
  manifestBlobs,
  parseManifest,
  type Descriptor,
  type Digest,
  type OciManifest,
  type Storage,
} from '@tenon/oci'
import { MEDIA_TYPES, type CallOutput } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'

type Shown = CallOutput<'artifacts.get'>
type Described = Pick<Shown, 'mediaType' | 'artifactType' | 'bytes' | 'tree' | 'closure' | 'signatures'>

const MAX_NODES = 500
const MAX_BUNDLE_BYTES = 1_048_576

/** What the vendor registry holds of an artifact; undefined when it is not there any more. */
export async function describeArtifact(
  context: Context,
  repository: string,
  digest: string,
): Promise<Described | undefined> {
  const { storage } = context.registry
  if (!isDigest(digest)) return undefined
  const root = await readManifest(storage, repository, digest)
  if (!root) return undefined
  const sizes = new Map<Digest, number>()
  const tree = await readTree(storage, repository, digest, sizes)
  const images = parseClosure(root.manifest.annotations?.[ANNOTATIONS.closure]) ?? []
  const closure: Shown['closure'] = []
  for (const { image, digest: of } of images) {
    const nodes = isDigest(of) ? await readTree(storage, repository, of, sizes) : []
    closure.push({ image, digest: of, isThere: nodes.length > 0 })
  }
  return {
    mediaType: root.manifest.mediaType,
    artifactType: root.manifest.artifactType ?? null,
    bytes: [...sizes.values()].reduce((sum, size) => sum + size, 0),
    tree,
    closure,
    signatures: await readSignatures(context, repository, digest),
  }
}

/** Depth first; `sizes` collects everything on the way, each once. */
async function readTree(
  storage: Storage,
  repository: string,
  digest: Digest,
  sizes: Map<Digest, number>,
): Promise<Shown['tree']> {
  const nodes: Shown['tree'] = []
  const visit = async (at: Digest, depth: number, platform: Descriptor['platform']): Promise<void> => {
    const found = nodes.length < MAX_NODES ? await readManifest(storage, repository, at) : undefined
    if (!found) return
    const { manifest, size } = found
    sizes.set(at, size)
    const blobs = manifestBlobs(manifest)
    for (const blob of blobs) sizes.set(blob.digest, blob.size)
    nodes.push({
      digest: at,
      mediaType: manifest.mediaType,
      artifactType: manifest.artifactType ?? null,
      size,
      depth,
      platform: platform ? formatPlatform(platform) : null,
      blobs: blobs.map((blob) => ({ digest: blob.digest, mediaType: blob.mediaType, size: blob.size })),
    })
    for (const child of manifest.manifests) await visit(child.digest, depth + 1, child.platform)
  }
  await visit(digest, 0, undefined)
  return nodes
}

async function readSignatures(
  context: Context,
  repository: string,
  digest: Digest,
): Promise<Shown['signatures']> {
  const { storage } = context.registry
  const keys = new Map(context.keys.links().map(({ keyId, publicKey }) => [keyId, publicKey]))
  const found: Shown['signatures'] = []
  for (const referrer of await storage.listReferrers(repository, digest)) {
    if (referrer.artifactType !== MEDIA_TYPES.bundle) continue
    const text = await readBundle(storage, repository, referrer.digest)
    const about = text === undefined ? undefined : describeBundle(text)
    if (text === undefined || !about) continue
    const isValid = checkBundle(text, digest, keys, verify).ok
    found.push({ digest: referrer.digest, ...about, isValid })
  }
  return found
}

/** The text of the one layer of a referrer; undefined when it is none that a bundle could have. */
export async function readBundle(
  storage: Storage,
  repository: string,
  digest: Digest,
): Promise<string | undefined> {
  const [layer] = (await readManifest(storage, repository, digest))?.manifest.layers ?? []
  if (!layer || layer.size > MAX_BUNDLE_BYTES) return undefined
  const chunks: Buffer[] = []
  for await (const chunk of await storage.openBlob(repository, layer.digest)) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

async function readManifest(
  storage: Storage,
  repository: string,
  digest: Digest,
): Promise<{ manifest: OciManifest; size: number } | undefined> {
  const found = await storage.getManifest(repository, digest)
  return found && { manifest: parseManifest(found.mediaType, found.bytes), size: found.bytes.byteLength }
}
