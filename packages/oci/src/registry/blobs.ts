import type { IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { manifestBlobs, parseManifest } from '../manifest.ts'
import type { Digest } from '../reference.ts'
import type { ByteRange } from '../storage/storage.ts'
import type { Exchange } from './exchange.ts'
import { notAllowed, requireDeletes } from './methods.ts'
import { etag, isKnown, RegistryRefusal, sendEmpty, sendUnchanged } from './respond.ts'

export const serveBlob = async (
  exchange: Exchange,
  route: { repository: string; digest: Digest },
): Promise<void> => {
  switch (exchange.req.method ?? '') {
    case 'GET':
    case 'HEAD':
      return pullBlob(exchange, route)
    case 'DELETE':
      requireDeletes(exchange, 'GET, HEAD')
      return deleteBlob(exchange, route)
    default:
      throw notAllowed(exchange, 'GET, HEAD')
  }
}

const pullBlob = async (
  exchange: Exchange,
  { repository, digest }: { repository: string; digest: Digest },
): Promise<void> => {
  const { req, res, storage } = exchange
  await exchange.allow({ repository, action: 'pull', digest })
  const found = await storage.statBlob(repository, digest)
  if (found === undefined) throw unknownBlob(digest)
  const headers = {
    'Content-Type': 'application/octet-stream',
    'Docker-Content-Digest': digest,
    'Accept-Ranges': 'bytes',
    ...etag(digest),
  }
  if (isKnown(req, digest)) return sendUnchanged(res, digest)
  const range = rangeOf(req, digest, found.size)
  if (range === 'unsatisfiable') {
    throw new RegistryRefusal(416, 'SIZE_INVALID', `The blob has ${found.size} bytes`, {
      'Content-Range': `bytes */${found.size}`,
    })
  }
  const length = range === undefined ? found.size : range.end - range.start + 1
  const partial =
    range === undefined ? {} : { 'Content-Range': `bytes ${range.start}-${range.end}/${found.size}` }
  const status = range === undefined ? 200 : 206
  if (req.method === 'HEAD' || length === 0) {
    res.writeHead(status, { ...headers, ...partial, 'Content-Length': length })
    res.end()
    return
  }
  const leave = await placeFor(exchange)
  try {
    const source = await storage.openBlob(repository, digest, range)
    res.writeHead(status, { ...headers, ...partial, 'Content-Length': length })
    await pipeline(source, res)
  } finally {
    leave?.()
  }
}

/** Too many at once wait a while for their turn; whoever waits in vain is told when to come again. */
const placeFor = async ({ limit, limitWaitMs }: Exchange): Promise<(() => void) | undefined> => {
  try {
    return await limit?.enter(AbortSignal.timeout(limitWaitMs))
  } catch {
    const headers = { 'Retry-After': '5' }
    throw new RegistryRefusal(429, 'TOOMANYREQUESTS', 'Too many blobs are being read; try again', headers)
  }
}

/** A blob that a manifest of the repository names stays: whoever pulls that manifest needs it. */
const deleteBlob = async (
  exchange: Exchange,
  { repository, digest }: { repository: string; digest: Digest },
): Promise<void> => {
  const { storage } = exchange
  await exchange.allow({ repository, action: 'delete', digest })
  for (const { digest: manifest } of await storage.upkeep.listManifests(repository)) {
    const found = await storage.getManifest(repository, manifest)
    const named = found === undefined ? [] : manifestBlobs(parseManifest(found.mediaType, found.bytes))
    if (!named.some((blob) => blob.digest === digest)) continue
    throw new RegistryRefusal(409, 'DENIED', `The manifest ${manifest} names this blob; delete that first`)
  }
  if (!(await storage.deleteBlob(repository, digest))) throw unknownBlob(digest)
  exchange.emit({ type: 'blob.deleted', repository, digest })
  sendEmpty(exchange.res, 202, {})
}

const unknownBlob = (digest: Digest): RegistryRefusal =>
  new RegistryRefusal(404, 'BLOB_UNKNOWN', `The repository holds no blob ${digest}`)

/** A range counts for GET only, and only for the content that the client means. */
const rangeOf = (
  req: IncomingMessage,
  digest: Digest,
  size: number,
): ByteRange | 'unsatisfiable' | undefined => {
  const meant = req.headers['if-range']
  const isMeant = meant === undefined || meant === etag(digest).ETag
  return req.method === 'GET' && isMeant ? parseRange(req.headers.range, size) : undefined
}

/** One range is served; several, or another unit, are answered with the whole as RFC 9110 allows. */
const parseRange = (header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined => {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? []
  if (first === '' && last === '') return undefined
  if (first === '') {
    const start = Math.max(0, size - Number(last))
    return Number(last) === 0 || size === 0 ? 'unsatisfiable' : { start, end: size - 1 }
  }
  const start = Number(first)
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (last !== '' && Number(last) < start) return undefined
  return start >= size ? 'unsatisfiable' : { start, end }
}

export const sendBlobCreated = (exchange: Exchange, repository: string, digest: Digest): void =>
  sendEmpty(exchange.res, 201, {
    Location: `/v2/${repository}/blobs/${digest}`,
    'Docker-Content-Digest': digest,
  })
