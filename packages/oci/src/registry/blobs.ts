import { pipeline } from 'node:stream/promises'
import type { Digest } from '../reference.ts'
import type { ByteRange } from '../storage/storage.ts'
import type { Exchange } from './exchange.ts'
import { RegistryRefusal, sendEmpty } from './respond.ts'

export const serveBlob = async (
  exchange: Exchange,
  route: { repository: string; digest: Digest },
): Promise<void> => {
  const { req, res, storage } = exchange
  const { repository, digest } = route
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    throw new RegistryRefusal(405, 'UNSUPPORTED', 'Blobs are removed by garbage collection', {
      Allow: 'GET, HEAD',
    })
  }
  await exchange.allow({ repository, action: 'pull', digest })
  const found = await storage.statBlob(repository, digest)
  if (found === undefined) {
    throw new RegistryRefusal(404, 'BLOB_UNKNOWN', `The repository holds no blob ${digest}`)
  }
  const headers = {
    'Content-Type': 'application/octet-stream',
    'Docker-Content-Digest': digest,
    'Accept-Ranges': 'bytes',
    ETag: `"${digest}"`,
  }
  const range = parseRange(req.headers.range, found.size)
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
  const source = await storage.openBlob(repository, digest, range)
  res.writeHead(status, { ...headers, ...partial, 'Content-Length': length })
  await pipeline(source, res)
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
