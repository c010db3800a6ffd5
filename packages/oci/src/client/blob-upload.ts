import { pipeline, Readable } from 'node:stream'
import { createVerifier } from '../digest.ts'
import { OciError } from '../errors.ts'
import type { Digest } from '../reference.ts'
import { TransientFailure, withRetries } from './retry.ts'
import { anySignal, discard } from './transport.ts'
import type { Transport, WireAnswer } from './transport.ts'

/** Bytes, one stream (sent once, never again), or a way to open the content at an offset. */
export type BlobSource = Uint8Array | Readable | ((offset: number) => Promise<Readable>)

export interface Upload {
  repository: string
  digest: Digest
  size: number
  source: BlobSource
  signal?: AbortSignal | undefined
}

/** A small blob is one request; a large one can go on after a break at the byte the registry has. */
export const uploadBlob = async (transport: Transport, upload: Upload): Promise<void> => {
  const signal = anySignal(transport.signal, upload.signal)
  const attempts = upload.source instanceof Readable ? 1 : transport.retry.attempts
  let session: string | undefined
  const attempt = async (count: number): Promise<void> => {
    if (count > 1 && (await isThere(transport, upload, signal))) return
    const resumed = session === undefined ? undefined : await resumePoint(transport, session, signal)
    const offset = resumed !== undefined && resumed.offset <= upload.size ? resumed.offset : 0
    session =
      offset > 0 && resumed !== undefined
        ? resumed.location
        : await open(transport, upload.repository, signal)
    if (offset === 0 && upload.size <= SMALL_BYTES) {
      return finish(transport, upload, session, await bodyFrom(upload, 0), signal)
    }
    session = await sendRest(transport, upload, session, offset, signal)
    return finish(transport, upload, session, undefined, signal)
  }
  try {
    await withRetries({ ...transport.retry, attempts }, signal, attempt)
  } catch (error) {
    if (session !== undefined) await abandon(transport, session)
    throw error
  }
}

const SMALL_BYTES = 1024 * 1024
const ABANDON_MS = 2000

/** Spares the registry what will never be finished; should this fail too, the upload expires there. */
const abandon = async (transport: Transport, session: string): Promise<void> => {
  const signal = AbortSignal.timeout(ABANDON_MS)
  const expect = [202, 204, 404, 405]
  await transport.once({ method: 'DELETE', path: session, expect, signal }).then(discard, () => {})
}

/** An answer that got lost does not mean that the blob did. */
const isThere = async (
  transport: Transport,
  upload: Upload,
  signal: AbortSignal | undefined,
): Promise<boolean> => {
  const path = `/v2/${upload.repository}/blobs/${upload.digest}`
  const answer = await transport.once({ method: 'HEAD', path, expect: [200, 403, 404], signal })
  await discard(answer)
  return answer.status === 200
}

const open = async (
  transport: Transport,
  repository: string,
  signal: AbortSignal | undefined,
): Promise<string> => {
  const path = `/v2/${repository}/blobs/uploads/`
  const answer = await transport.once({ method: 'POST', path, expect: [202], signal, headers: noBody })
  await discard(answer)
  return transport.follow(answer.header('location'), path)
}

const finish = async (
  transport: Transport,
  upload: Upload,
  session: string,
  body: Uint8Array | Readable | undefined,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const { digest, size } = upload
  const path = `${session}${session.includes('?') ? '&' : '?'}digest=${encodeURIComponent(digest)}`
  const headers = body === undefined ? noBody : { 'content-type': octets, 'content-length': String(size) }
  const answer = await sendBody(transport, { method: 'PUT', path, expect: [201, 204], headers, signal }, body)
  await discard(answer)
  const stored = answer.header('docker-content-digest')
  if (stored !== undefined && stored !== digest) {
    throw new OciError(
      'RESPONSE_INVALID',
      `The registry says it stored ${stored.slice(0, 80)}, not ${digest}`,
    )
  }
}

const sendRest = async (
  transport: Transport,
  upload: Upload,
  session: string,
  offset: number,
  signal: AbortSignal | undefined,
): Promise<string> => {
  const length = upload.size - offset
  if (length === 0) return session
  const headers = {
    'content-type': octets,
    'content-length': String(length),
    'content-range': `${offset}-${upload.size - 1}`,
  }
  const body = await bodyFrom(upload, offset)
  const answer = await sendBody(
    transport,
    { method: 'PATCH', path: session, expect: [202], headers, signal },
    body,
  )
  await discard(answer)
  return transport.follow(answer.header('location'), session)
}

/** `0-0` means one byte or none: not worth resuming, nor is a session the registry forgot. */
const resumePoint = async (
  transport: Transport,
  session: string,
  signal: AbortSignal | undefined,
): Promise<{ location: string; offset: number } | undefined> => {
  const answer = await transport.once({ method: 'GET', path: session, expect: [204, 404], signal })
  await discard(answer)
  const last = /^(?:bytes=)?0-(\d{1,15})$/.exec(answer.header('range') ?? '')?.[1]
  if (answer.status === 404 || last === undefined || last === '0') return undefined
  const location = answer.header('location')
  return {
    location: location === undefined ? session : transport.follow(location, session),
    offset: Number(last) + 1,
  }
}

type Unsent = Omit<Parameters<Transport['once']>[0], 'body'>

/** What broke in the source is the reason to tell, not that the request then could not go on. */
const sendBody = async (
  transport: Transport,
  wire: Unsent,
  body: Uint8Array | Readable | undefined,
): Promise<WireAnswer> => {
  if (body === undefined) return transport.once(wire)
  let broken: unknown
  if (body instanceof Readable) body.once('error', (error) => (broken = error))
  try {
    return await transport.once({ ...wire, body })
  } catch (error) {
    if (broken instanceof OciError) throw broken
    if (error instanceof OciError && error.code === 'RANGE_INVALID') {
      throw new TransientFailure('The registry holds another part of the upload', { cause: error })
    }
    throw error
  } finally {
    if (body instanceof Readable) body.destroy()
  }
}

const bodyFrom = async (upload: Upload, offset: number): Promise<Uint8Array | Readable> => {
  const { source, digest, size } = upload
  if (source instanceof Uint8Array) return source.subarray(offset)
  const stream = source instanceof Readable ? source : await source(offset)
  if (offset > 0) return stream
  const verifier = createVerifier({ digest, size })
  pipeline(stream, verifier, () => {})
  return verifier
}

const octets = 'application/octet-stream'
const noBody = { 'content-length': '0' }
