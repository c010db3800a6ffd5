import { OciError } from '../errors.ts'
import { isDigest, isRepository, parseDigest, parseDigestAlgorithm } from '../reference.ts'
import { sendBlobCreated } from './blobs.ts'
import type { Exchange } from './exchange.ts'
import { RegistryRefusal, sendEmpty } from './respond.ts'

/** POST: mounts from another repository, takes the whole blob at once, or opens an upload. */
export const startUpload = async (exchange: Exchange, repository: string): Promise<void> => {
  const { req, query, storage } = exchange
  if (req.method !== 'POST') throw notAllowed('POST')
  await exchange.allow({ repository, action: 'push' })
  if (await mounted(exchange, repository)) return
  const algorithm = query.get('digest-algorithm')
  if (algorithm !== null) parseDigestAlgorithm(algorithm)
  const whole = query.get('digest')
  const digest = whole === null ? undefined : parseDigest(whole)
  const id = await storage.createUpload(repository)
  if (digest === undefined) {
    return sendEmpty(exchange.res, 202, {
      ...progressHeaders(repository, id, 0),
      'OCI-Chunk-Min-Length': exchange.chunkMinBytes,
    })
  }
  try {
    await storage.appendUpload(repository, id, 0, bodyOf(exchange))
  } catch (error) {
    // What failed is the reason to tell, also when the upload is gone already.
    await storage.cancelUpload(repository, id).catch(() => {})
    throw error
  }
  await storage.commitUpload(repository, id, digest)
  exchange.emit({ type: 'blob.pushed', repository, digest })
  sendBlobCreated(exchange, repository, digest)
}

export const serveUpload = async (
  exchange: Exchange,
  route: { repository: string; id: string },
): Promise<void> => {
  const { req, storage } = exchange
  const { repository, id } = route
  await exchange.allow({ repository, action: 'push' })
  switch (req.method ?? '') {
    case 'GET':
      return sendProgress(exchange, 204, repository, id, await storage.uploadSize(repository, id))
    case 'PATCH':
      return sendProgress(exchange, 202, repository, id, await append(exchange, repository, id))
    case 'PUT':
      return finishUpload(exchange, repository, id)
    case 'DELETE':
      await storage.cancelUpload(repository, id)
      return sendEmpty(exchange.res, 204, {})
    default:
      throw notAllowed('GET, PATCH, PUT, DELETE')
  }
}

const finishUpload = async (exchange: Exchange, repository: string, id: string): Promise<void> => {
  const digest = parseDigest(exchange.query.get('digest') ?? '')
  await append(exchange, repository, id)
  await exchange.storage.commitUpload(repository, id, digest)
  exchange.emit({ type: 'blob.pushed', repository, digest })
  sendBlobCreated(exchange, repository, digest)
}

/**
 * Whoever mounts must be allowed to read the source; otherwise the client uploads as usual. Without a source
 * only the repository itself is looked at: what others hold is not told to somebody who cannot name them.
 */
const mounted = async (exchange: Exchange, repository: string): Promise<boolean> => {
  const digest = exchange.query.get('mount') ?? ''
  const from = exchange.query.get('from') ?? repository
  if (!isDigest(digest) || !isRepository(from)) return false
  try {
    await exchange.allow({ repository: from, action: 'pull', digest })
  } catch (error) {
    if (error instanceof RegistryRefusal) return false
    throw error
  }
  if (!(await exchange.storage.mountBlob(from, repository, digest))) return false
  exchange.emit({ type: 'blob.mounted', repository, from, digest })
  sendBlobCreated(exchange, repository, digest)
  return true
}

const append = async (exchange: Exchange, repository: string, id: string): Promise<number> => {
  const { storage } = exchange
  // An empty PATCH is how a client that resumes makes sure that nobody else writes any more.
  if (!hasBody(exchange) && exchange.req.method !== 'PATCH') return storage.uploadSize(repository, id)
  try {
    return await storage.appendUpload(repository, id, chunkStart(exchange), bodyOf(exchange))
  } catch (error) {
    if (!(error instanceof OciError) || error.code !== 'RANGE_INVALID') throw error
    const size = await storage.uploadSize(repository, id)
    throw new RegistryRefusal(
      416,
      'BLOB_UPLOAD_INVALID',
      error.message,
      progressHeaders(repository, id, size),
    )
  }
}

/** A failed write must leave the connection open, or the client never reads why. */
const bodyOf = ({ req }: Exchange): AsyncIterable<Uint8Array> => req.iterator({ destroyOnReturn: false })

const hasBody = ({ req }: Exchange): boolean =>
  req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0

/** The range must agree with the length, so that a chunk cut short is noticed before it is written. */
const chunkStart = ({ req }: Exchange): number | undefined => {
  const header = req.headers['content-range']
  if (header === undefined) return undefined
  const [, start, end] = /^(?:bytes[ =])?(\d{1,15})-(\d{1,15})(?:\/(?:\d+|\*))?$/.exec(header) ?? []
  const length = Number(end) - Number(start) + 1
  const declared = req.headers['content-length']
  if (start === undefined || length < 1 || (declared !== undefined && Number(declared) !== length)) {
    throw new RegistryRefusal(
      416,
      'BLOB_UPLOAD_INVALID',
      'Content-Range does not fit the length of the chunk',
    )
  }
  return Number(start)
}

const sendProgress = (
  exchange: Exchange,
  status: number,
  repository: string,
  id: string,
  size: number,
): void => sendEmpty(exchange.res, status, progressHeaders(repository, id, size))

const progressHeaders = (repository: string, id: string, size: number) => ({
  Location: `/v2/${repository}/blobs/uploads/${id}`,
  Range: `0-${Math.max(0, size - 1)}`,
  'Docker-Upload-UUID': id,
})

const notAllowed = (allow: string): RegistryRefusal =>
  new RegistryRefusal(405, 'UNSUPPORTED', 'The method does not fit this address', { Allow: allow })
