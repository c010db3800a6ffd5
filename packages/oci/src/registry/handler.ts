import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SourceLimit } from '../copy/source-limit.ts'
import { MAX_MANIFEST_BYTES } from '../manifest.ts'
import type { Storage } from '../storage/storage.ts'
import { challenge, readBasic, readBearer } from './access.ts'
import type { Authorize } from './access.ts'
import { serveBlob } from './blobs.ts'
import type { Exchange, Redeem, RegistryEvent } from './exchange.ts'
import { listReferrers, listTags } from './listings.ts'
import { serveManifest } from './manifests.ts'
import { asRefusal, RegistryRefusal, sendJson, sendRefusal } from './respond.ts'
import { parseRoute } from './route.ts'
import type { Route } from './route.ts'
import { serveUpload, startUpload } from './uploads.ts'

export interface RegistryLogRecord {
  level: 'info' | 'error'
  message: string
  method: string
  path: string
  status: number
  error?: unknown
}

export interface RegistryOptions {
  storage: Storage
  authorize: Authorize
  /** Absolute address of the token endpoint; must be set behind a TLS proxy. */
  realm?: string
  /** Gets method, path without query, and status; never a header. */
  log?: (record: RegistryLogRecord) => void
  maxManifestBytes?: number
  /** Places for blobs that are read at the same time; without it there is no bound. */
  limit?: Pick<SourceLimit, 'enter'>
  /** How long a reader waits for a place before it is sent away. */
  limitWaitMs?: number
  /** What the token endpoint does with credentials that are not bearers themselves. */
  redeem?: Redeem
  /** Announced to clients that send blobs in chunks; smaller ones are taken too. */
  chunkMinBytes?: number
  /** Whether tags, manifests and blobs can be deleted, by whoever `authorize` lets; off, DELETE is answered 405. */
  deletes?: boolean
  /** Whether an index may be pushed although manifests that it names are absent. */
  sparseIndexes?: boolean
  onEvent?: (event: RegistryEvent) => void
}

export type RegistryHandler = (req: IncomingMessage, res: ServerResponse) => Promise<void>

/** The OCI distribution API as a plain node:http listener; it answers everything under `/v2/`. */
export const createRegistryHandler = (options: RegistryOptions): RegistryHandler => {
  const { log } = options
  return async (req, res) => {
    const [path, search] = splitOnce(req.url ?? '', '?')
    const record = { method: req.method ?? '', path }
    try {
      const route = parseRoute(path)
      if (route === undefined)
        throw new RegistryRefusal(404, 'UNSUPPORTED', 'There is nothing at this address')
      await serve(createExchange(options, req, res, new URLSearchParams(search)), route)
      log?.({ level: 'info', message: 'registry request', ...record, status: res.statusCode })
    } catch (error) {
      const refusal = asRefusal(error)
      if (refusal === undefined && !req.destroyed) {
        log?.({ level: 'error', message: 'registry request failed', ...record, status: 500, error })
      } else {
        log?.({
          level: 'info',
          message: 'registry request refused',
          ...record,
          status: refusal?.status ?? 499,
        })
      }
      answerFailure(res, refusal)
    }
  }
}

const CHUNK_MIN_BYTES = 64 * 1024
const LIMIT_WAIT_MS = 20_000

/** Once the headers are out, only a broken connection tells the client that the body is not whole. */
const answerFailure = (res: ServerResponse, refusal: RegistryRefusal | undefined): void => {
  if (res.headersSent) {
    res.destroy()
    return
  }
  sendRefusal(res, refusal ?? new RegistryRefusal(500, 'UNKNOWN', 'The registry failed; try again later'))
}

const serve = async (exchange: Exchange, route: Route): Promise<void> => {
  switch (route.kind) {
    case 'base':
      await exchange.allow({ repository: undefined, action: 'pull' })
      return sendJson(exchange.res, 200, {}, { 'Docker-Distribution-Api-Version': 'registry/2.0' })
    case 'token':
      return sendToken(exchange)
    case 'blob':
      return serveBlob(exchange, route)
    case 'uploads':
      return startUpload(exchange, route.repository)
    case 'upload':
      return serveUpload(exchange, route)
    case 'manifest':
      return serveManifest(exchange, route)
    case 'tags':
      return listTags(exchange, route.repository)
    case 'referrers':
      return listReferrers(exchange, route)
  }
}

/** Clients that only know the token flow get back, as a bearer, the credential they proved here. */
const sendToken = async (exchange: Exchange): Promise<void> => {
  const credential = readBasic(exchange.req.headers.authorization)
  const redeemed = credential && (await exchange.redeem?.(credential))
  if (redeemed !== undefined) {
    const { bearer, expiresInSeconds: expires_in } = redeemed
    const body = { token: bearer, access_token: bearer, expires_in }
    return sendJson(exchange.res, 200, body, { 'Cache-Control': 'no-store' })
  }
  await exchange.allow({ repository: undefined, action: 'pull' })
  const token = readBearer(exchange.req.headers.authorization)
  if (token === undefined) throw new RegistryRefusal(401, 'UNAUTHORIZED', 'Send basic credentials')
  sendJson(exchange.res, 200, { token, access_token: token, expires_in: 60 }, { 'Cache-Control': 'no-store' })
}

const createExchange = (
  options: RegistryOptions,
  req: IncomingMessage,
  res: ServerResponse,
  query: URLSearchParams,
): Exchange => ({
  req,
  res,
  query,
  storage: options.storage,
  maxManifestBytes: options.maxManifestBytes ?? MAX_MANIFEST_BYTES,
  chunkMinBytes: options.chunkMinBytes ?? CHUNK_MIN_BYTES,
  deletes: options.deletes ?? false,
  sparseIndexes: options.sparseIndexes ?? false,
  redeem: options.redeem,
  limit: options.limit,
  limitWaitMs: options.limitWaitMs ?? LIMIT_WAIT_MS,
  emit: (event) => options.onEvent?.(event),
  allow: async (wanted) => {
    const decision = await options.authorize({ ...wanted, bearer: readBearer(req.headers.authorization) })
    if (decision.ok) return
    const { ok: _ok, message, ...why } = decision
    const { status } = why
    options.onEvent?.({ type: 'access.refused', ...wanted, ...why })
    const headers = status === 401 ? { 'WWW-Authenticate': challenge(req, options.realm, wanted) } : {}
    throw new RegistryRefusal(status, status === 401 ? 'UNAUTHORIZED' : 'DENIED', message, headers)
  },
})

const splitOnce = (text: string, separator: string): [string, string] => {
  const at = text.indexOf(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
