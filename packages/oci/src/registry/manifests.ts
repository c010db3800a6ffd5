import { digestOf } from '../digest.ts'
import { manifestBlobs, parseManifest, referrerDescriptor, requiredBlobs } from '../manifest.ts'
import type { Descriptor, OciManifest } from '../manifest.ts'
import { digestAlgorithm } from '../reference.ts'
import type { Digest } from '../reference.ts'
import type { Exchange } from './exchange.ts'
import { notAllowed, requireDeletes } from './methods.ts'
import { etag, isKnown, RegistryRefusal, sendBytes, sendEmpty, sendUnchanged } from './respond.ts'

type Reference = { tag: string } | { digest: Digest }

export const serveManifest = async (
  exchange: Exchange,
  route: { repository: string; reference: Reference },
): Promise<void> => {
  const { repository, reference } = route
  switch (exchange.req.method ?? '') {
    case 'GET':
    case 'HEAD':
      return pullManifest(exchange, repository, reference)
    case 'PUT':
      return pushManifest(exchange, repository, reference)
    case 'DELETE':
      requireDeletes(exchange, 'GET, HEAD, PUT')
      return deleteManifest(exchange, repository, reference)
    default:
      throw notAllowed(exchange, 'GET, HEAD, PUT')
  }
}

/** A tag is resolved before access is asked for, so that access bound to digests covers it too. */
const pullManifest = async (exchange: Exchange, repository: string, reference: Reference): Promise<void> => {
  const { req, res, storage } = exchange
  const digest = 'tag' in reference ? await storage.resolveTag(repository, reference.tag) : reference.digest
  await exchange.allow({
    repository,
    action: 'pull',
    reference: nameOf(reference),
    ...(digest === undefined ? {} : { digest }),
  })
  const found = digest === undefined ? undefined : await storage.getManifest(repository, digest)
  if (found === undefined) throw unknownManifest(reference)
  if (req.method === 'GET') {
    exchange.emit({ type: 'manifest.pulled', repository, digest: found.digest, ...tagOf(reference) })
  }
  if (isKnown(req, found.digest)) return sendUnchanged(res, found.digest)
  sendBytes(res, 200, found.bytes, {
    'Content-Type': found.mediaType,
    'Docker-Content-Digest': found.digest,
    ...etag(found.digest),
  })
}

const pushManifest = async (exchange: Exchange, repository: string, reference: Reference): Promise<void> => {
  const { req, res, storage } = exchange
  await exchange.allow({
    repository,
    action: 'push',
    reference: nameOf(reference),
    ...('digest' in reference ? { digest: reference.digest } : {}),
  })
  const mediaType = (req.headers['content-type'] ?? '').split(';')[0]?.trim() ?? ''
  const bytes = await readBounded(exchange)
  const manifest = parseManifest(mediaType, bytes)
  const digest = digestOf('digest' in reference ? digestAlgorithm(reference.digest) : 'sha256', bytes)
  if ('digest' in reference && reference.digest !== digest) {
    throw new RegistryRefusal(400, 'DIGEST_INVALID', `The manifest is ${digest}, not ${reference.digest}`)
  }
  await requireContent(exchange, repository, manifest)
  const size = bytes.byteLength
  const referrer =
    manifest.subject === undefined
      ? {}
      : {
          referrer: {
            subject: manifest.subject.digest,
            descriptor: referrerDescriptor(manifest, digest, size),
          },
        }
  await storage.putManifest(repository, { digest, mediaType, bytes }, { ...tagOf(reference), ...referrer })
  exchange.emit({ type: 'manifest.pushed', repository, digest, mediaType, size, ...tagOf(reference) })
  sendEmpty(res, 201, {
    Location: `/v2/${repository}/manifests/${digest}`,
    'Docker-Content-Digest': digest,
    ...(manifest.subject === undefined ? {} : { 'OCI-Subject': manifest.subject.digest }),
  })
}

const deleteManifest = async (
  exchange: Exchange,
  repository: string,
  reference: Reference,
): Promise<void> => {
  const { storage } = exchange
  await exchange.allow({
    repository,
    action: 'delete',
    reference: nameOf(reference),
    ...('digest' in reference ? { digest: reference.digest } : {}),
  })
  const removed =
    'tag' in reference
      ? await storage.deleteTag(repository, reference.tag)
      : await storage.deleteManifest(repository, reference.digest)
  if (!removed) throw unknownManifest(reference)
  exchange.emit({ type: 'manifest.deleted', repository, reference: nameOf(reference) })
  sendEmpty(exchange.res, 202, {})
}

/** What a manifest names must be there, with the size it names, before anybody can pull it. */
const requireContent = async (
  exchange: Exchange,
  repository: string,
  manifest: OciManifest,
): Promise<void> => {
  const { storage, sparseIndexes } = exchange
  const required = new Set(requiredBlobs(manifest))
  for (const blob of manifestBlobs(manifest)) {
    const found = await storage.statBlob(repository, blob.digest)
    if (found !== undefined || required.has(blob.digest)) requireFound('blob', blob, found)
  }
  for (const child of manifest.manifests) {
    const found = await storage.statManifest(repository, child.digest)
    if (found !== undefined || !sparseIndexes) requireFound('manifest', child, found)
  }
}

const requireFound = (
  kind: 'blob' | 'manifest',
  descriptor: Descriptor,
  found: { size: number } | undefined,
): void => {
  if (found === undefined) {
    throw new RegistryRefusal(
      404,
      'MANIFEST_BLOB_UNKNOWN',
      `The manifest names the ${kind} ${descriptor.digest}, which the repository does not hold; push that first`,
    )
  }
  if (found.size !== descriptor.size) {
    throw new RegistryRefusal(
      400,
      'MANIFEST_INVALID',
      `The manifest gives ${descriptor.digest} ${descriptor.size} bytes; it has ${found.size}`,
    )
  }
}

const readBounded = async ({ req, maxManifestBytes }: Exchange): Promise<Buffer> => {
  const tooLarge = new RegistryRefusal(
    413,
    'SIZE_INVALID',
    `A manifest has at most ${maxManifestBytes} bytes`,
    {
      Connection: 'close',
    },
  )
  if (Number(req.headers['content-length'] ?? 0) > maxManifestBytes) throw tooLarge
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    size += (chunk as Buffer).byteLength
    if (size > maxManifestBytes) throw tooLarge
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks)
}

const nameOf = (reference: Reference): string => ('tag' in reference ? reference.tag : reference.digest)

const tagOf = (reference: Reference): { tag?: string } => ('tag' in reference ? { tag: reference.tag } : {})

const unknownManifest = (reference: Reference): RegistryRefusal =>
  new RegistryRefusal(404, 'MANIFEST_UNKNOWN', `The repository holds no manifest ${nameOf(reference)}`)
