import type { Readable } from 'node:stream'
import { digestOf, sha256Digest, verifyBytes } from '../digest.ts'
import { OciError } from '../errors.ts'
import { isManifestMediaType, manifestMediaTypes, MAX_MANIFEST_BYTES } from '../manifest.ts'
import type { Descriptor } from '../manifest.ts'
import { digestAlgorithm, isDigest, parseDigest, parseRepository, parseTagOrDigest } from '../reference.ts'
import type { Digest } from '../reference.ts'
import { downloadBlob } from './blob-download.ts'
import type { BlobDownload, GetBlobOptions } from './blob-download.ts'
import { uploadBlob } from './blob-upload.ts'
import type { BlobSource, PutBlobOptions } from './blob-upload.ts'
import { listReferrers, listTags, listUnderTag } from './listings.ts'
import type { ReferrerOptions } from './listings.ts'
import { withRetries } from './retry.ts'
import { anySignal, createTransport, discard, readBounded } from './transport.ts'
import type { RegistryClientOptions, Transport, WireAnswer } from './transport.ts'

export interface ManifestInfo {
  digest: Digest
  mediaType: string
  size: number
}

export interface FetchedManifest extends ManifestInfo {
  bytes: Uint8Array
}

export interface CallOptions {
  signal?: AbortSignal
}

/** Speaks to one registry; every answer is bounded and checked, every failure an `OciError`. */
export interface RegistryClient {
  /** Scheme, host and port: two clients with the same one can mount instead of copy. */
  origin: string
  getManifest(repository: string, reference: string, options?: CallOptions): Promise<FetchedManifest>
  headManifest(
    repository: string,
    reference: string,
    options?: CallOptions,
  ): Promise<ManifestInfo | undefined>
  putManifest(
    repository: string,
    reference: string,
    mediaType: string,
    bytes: Uint8Array,
    options?: CallOptions,
  ): Promise<ManifestInfo>
  getBlob(repository: string, digest: Digest, options?: GetBlobOptions): Promise<BlobDownload>
  hasBlob(repository: string, digest: Digest, options?: CallOptions): Promise<boolean>
  putBlob(
    repository: string,
    digest: Digest,
    size: number,
    source: BlobSource,
    options?: PutBlobOptions,
  ): Promise<void>
  /** False when the registry would not; the blob then has to be uploaded. */
  mountBlob(repository: string, digest: Digest, from: string, options?: CallOptions): Promise<boolean>
  /** All of them, page after page; empty when there is no such repository. */
  listTags(repository: string, options?: CallOptions): Promise<string[]>
  /** What names the manifest as its subject; registries without the referrers API keep it under a tag. */
  listReferrers(repository: string, subject: Digest, options?: ReferrerOptions): Promise<Descriptor[]>
}

export const createRegistryClient = (options: RegistryClientOptions): RegistryClient => {
  const transport = createTransport(options)
  return {
    origin: new URL(options.url).origin,
    getManifest: (repository, reference, call) => getManifest(transport, repository, reference, call),
    headManifest: (repository, reference, call) => headManifest(transport, repository, reference, call),
    putManifest: async (repository, reference, mediaType, bytes, call) => {
      const put = await putManifest(transport, repository, reference, mediaType, bytes, call)
      if (!put.isListed) await listUnderTag(transport, repository, put.info, bytes, call ?? {})
      return put.info
    },
    getBlob: async (repository, digest, get) =>
      downloadBlob(transport, parseRepository(repository), parseDigest(digest), get ?? {}),
    hasBlob: (repository, digest, call) => hasBlob(transport, repository, digest, call),
    putBlob: async (repository, digest, size, source, call) =>
      uploadBlob(transport, {
        ...call,
        origin: new URL(options.url).origin,
        repository: parseRepository(repository),
        digest: parseDigest(digest),
        size,
        source,
      }),
    mountBlob: (repository, digest, from, call) => mountBlob(transport, repository, digest, from, call),
    listTags: async (repository, call) => listTags(transport, parseRepository(repository), call ?? {}),
    listReferrers: async (repository, subject, call) =>
      listReferrers(transport, parseRepository(repository), parseDigest(subject), call ?? {}),
  }
}

/** Reads a blob of known, small size into memory, such as a config. */
export const readBlob = async (
  client: RegistryClient,
  repository: string,
  blob: { digest: Digest; size: number },
  limit: number,
): Promise<Buffer> => {
  if (blob.size > limit)
    throw new OciError('TOO_LARGE', `The blob ${blob.digest} has more than ${limit} bytes`)
  const { stream } = await client.getBlob(repository, blob.digest, { size: blob.size })
  return collect(stream)
}

const collect = async (stream: Readable): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

const accept = manifestMediaTypes.join(', ')

const manifestPath = (repository: string, reference: string): string => {
  parseTagOrDigest(reference)
  return `/v2/${parseRepository(repository)}/manifests/${reference}`
}

const getManifest = async (
  transport: Transport,
  repository: string,
  reference: string,
  call: CallOptions = {},
): Promise<FetchedManifest> => {
  const path = manifestPath(repository, reference)
  return withRetries(transport.retry, anySignal(transport.signal, call.signal), async () => {
    const answer = await transport.once({ method: 'GET', path, headers: { accept }, expect: [200], ...call })
    const bytes = await readBounded(answer, MAX_MANIFEST_BYTES)
    const announced = answer.header('docker-content-digest') ?? ''
    const named = [reference, announced].filter(isDigest)
    for (const expected of named) verifyBytes(bytes, expected)
    // A registry may know the manifest by no other digest than the one it was asked for or announces.
    const digest = named[0] ?? sha256Digest(bytes)
    return { digest, mediaType: mediaTypeOf(answer), size: bytes.byteLength, bytes }
  })
}

const headManifest = async (
  transport: Transport,
  repository: string,
  reference: string,
  call: CallOptions = {},
): Promise<ManifestInfo | undefined> => {
  const path = manifestPath(repository, reference)
  const answer = await transport.send({
    method: 'HEAD',
    path,
    headers: { accept },
    expect: [200, 404],
    ...call,
  })
  await discard(answer)
  if (answer.status === 404) return undefined
  const digest = isDigest(reference) ? reference : answer.header('docker-content-digest')
  const size = Number(answer.header('content-length'))
  if (digest === undefined || !isDigest(digest) || !Number.isSafeInteger(size)) {
    throw new OciError('RESPONSE_INVALID', 'The registry does not say which manifest it holds')
  }
  return { digest, mediaType: mediaTypeOf(answer), size }
}

const putManifest = async (
  transport: Transport,
  repository: string,
  reference: string,
  mediaType: string,
  bytes: Uint8Array,
  call: CallOptions = {},
): Promise<{ info: ManifestInfo; isListed: boolean }> => {
  const path = manifestPath(repository, reference)
  const headers = { 'content-type': mediaType }
  const answer = await transport.send({ method: 'PUT', path, headers, body: bytes, expect: [201], ...call })
  await discard(answer)
  const digest = storedAs(answer, reference, bytes)
  const isListed = answer.header('oci-subject') !== undefined
  return { info: { digest, mediaType, size: bytes.byteLength }, isListed }
}

/** Under a digest it is stored as that; under a tag the registry chooses the algorithm, sha256 if it says nothing. */
const storedAs = (answer: WireAnswer, reference: string, bytes: Uint8Array): Digest => {
  const stored = answer.header('docker-content-digest')
  const told = stored !== undefined && isDigest(stored) ? stored : undefined
  const algorithm = isDigest(reference) ? digestAlgorithm(reference) : told && digestAlgorithm(told)
  const digest = digestOf(algorithm ?? 'sha256', bytes)
  if (stored === undefined || stored === digest) return digest
  throw new OciError('RESPONSE_INVALID', `The registry says it stored ${stored.slice(0, 80)}, not ${digest}`)
}

const hasBlob = async (
  transport: Transport,
  repository: string,
  digest: Digest,
  call: CallOptions = {},
): Promise<boolean> => {
  const path = `/v2/${parseRepository(repository)}/blobs/${parseDigest(digest)}`
  const answer = await transport.send({ method: 'HEAD', path, expect: [200, 404], ...call })
  await discard(answer)
  return answer.status === 200
}

const mountBlob = async (
  transport: Transport,
  repository: string,
  digest: Digest,
  from: string,
  call: CallOptions = {},
): Promise<boolean> => {
  const base = `/v2/${parseRepository(repository)}/blobs/uploads/`
  const path = `${base}?mount=${encodeURIComponent(parseDigest(digest))}&from=${encodeURIComponent(parseRepository(from))}`
  const headers = { 'content-length': '0' }
  const answer = await transport.send({
    method: 'POST',
    path,
    headers,
    expect: [201, 202],
    alsoPull: from,
    ...call,
  })
  await discard(answer)
  if (answer.status === 201) return true
  // The registry opened an upload instead; it is given back rather than left to expire.
  const session = transport.follow(answer.header('location'), base)
  await discard(
    await transport.send({ method: 'DELETE', path: session, expect: [200, 202, 204, 404, 405], ...call }),
  )
  return false
}

const mediaTypeOf = (answer: WireAnswer): string => {
  const mediaType = (answer.header('content-type') ?? '').split(';')[0]?.trim() ?? ''
  if (isManifestMediaType(mediaType)) return mediaType
  throw new OciError(
    'RESPONSE_INVALID',
    `The registry answered with ${JSON.stringify(mediaType.slice(0, 80))}, no manifest`,
  )
}
