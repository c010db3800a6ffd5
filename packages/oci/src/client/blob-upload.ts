import { pipeline, Readable } from 'node:stream'
import { createVerifier } from '../digest.ts'
import { isOciError, OciError } from '../errors.ts'
import type { Digest } from '../reference.ts'
import { aborted, TransientFailure, unavailable, waitOrGiveUp } from './retry.ts'
import { anySignal, discard } from './transport.ts'
import type { Transport, WireAnswer } from './transport.ts'

/** Bytes, one stream (sent once, never again), or a way to open the content at an offset. */
export type BlobSource = Uint8Array | Readable | ((offset: number) => Promise<Readable>)

/** Remembers open uploads beyond the life of a process, so that the next one goes on where this one died. */
export interface UploadSessions {
  get(key: string): Promise<string | undefined>
  set(key: string, location: string): Promise<void>
  delete(key: string): Promise<void>
}

export const sessionKey = (origin: string, repository: string, digest: Digest): string =>
  `${origin} ${repository} ${digest}`

export interface PutBlobOptions {
  signal?: AbortSignal
  sessions?: UploadSessions
  /** True when the source itself fails on a wrong digest or size, so that hashing twice is spared. */
  isVerified?: boolean
}

export interface Upload extends PutBlobOptions {
  origin: string
  repository: string
  digest: Digest
  size: number
  source: BlobSource
}

/** Goes on after a break at the byte the registry has. */
export const uploadBlob = async (transport: Transport, upload: Upload): Promise<void> => {
  const signal = anySignal(transport.signal, upload.signal)
  const state = await createState(upload)
  for (let tries = 1; ; tries++) {
    try {
      await attemptUpload(transport, upload, state, tries, signal)
      return await state.forget()
    } catch (error) {
      if (state.isResumed && isOciError(error, 'DIGEST_MISMATCH')) {
        // Somebody else wrote into what was resumed; a new upload settles whether the source is right.
        await state.forget()
        continue
      }
      const failure = signal?.aborted ? aborted(signal) : error
      if (!(failure instanceof TransientFailure)) return await giveUp(transport, state, failure)
      state.failures++
      if (upload.source instanceof Readable) return await giveUp(transport, state, unavailable(failure))
      await waitOrGiveUp(transport.retry, state.failures, failure, signal).catch((reason: unknown) =>
        giveUp(transport, state, reason),
      )
    }
  }
}

interface UploadState {
  session: string | undefined
  /** Since the last byte of progress. */
  failures: number
  furthest: number
  isResumed: boolean
  isKept: boolean
  opened(session: string): Promise<void>
  forget(): Promise<void>
}

const createState = async (upload: Upload): Promise<UploadState> => {
  const { sessions, origin, repository, digest } = upload
  const key = sessionKey(origin, repository, digest)
  const state: UploadState = {
    session: await sessions?.get(key),
    failures: 0,
    furthest: 0,
    isResumed: false,
    isKept: sessions !== undefined && upload.size > SMALL_BYTES,
    opened: async (session) => {
      state.session = session
      if (state.isKept) await sessions?.set(key, session)
    },
    forget: async () => {
      state.session = undefined
      state.isResumed = false
      await sessions?.delete(key)
    },
  }
  return state
}

const attemptUpload = async (
  transport: Transport,
  upload: Upload,
  state: UploadState,
  tries: number,
  signal: AbortSignal | undefined,
): Promise<void> => {
  if (tries > 1 && (await isThere(transport, upload, signal))) return
  const resumed =
    state.session === undefined ? undefined : await resumePoint(transport, state.session, signal)
  const offset = resumed !== undefined && resumed.offset <= upload.size ? resumed.offset : 0
  state.isResumed = offset > 0
  if (offset > state.furthest) {
    state.furthest = offset
    state.failures = 0
  }
  if (resumed === undefined || offset === 0) {
    if (resumed !== undefined) await abandon(transport, resumed.location)
    await state.opened(await open(transport, upload.repository, signal))
  } else await state.opened(resumed.location)
  return finish(transport, upload, state.session ?? '', offset, signal)
}

/** What a later process may go on with stays open; anything else is given back. */
const giveUp = async (transport: Transport, state: UploadState, reason: unknown): Promise<never> => {
  const mayGoOn = isOciError(reason, 'ABORTED') || isOciError(reason, 'UNAVAILABLE')
  if (state.session !== undefined && !(state.isKept && mayGoOn)) {
    await abandon(transport, state.session)
    await state.forget()
  }
  throw reason
}

/** Not worth resuming in another process. */
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

/** The last request carries all that is missing: one round trip less, and just as good to resume. */
const finish = async (
  transport: Transport,
  upload: Upload,
  session: string,
  offset: number,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const { digest, size } = upload
  const length = size - offset
  const path = `${session}${session.includes('?') ? '&' : '?'}digest=${encodeURIComponent(digest)}`
  const headers = {
    'content-type': octets,
    'content-length': String(length),
    ...(offset === 0 || length === 0 ? {} : { 'content-range': `${offset}-${size - 1}` }),
  }
  const body = length === 0 && offset > 0 ? undefined : await bodyFrom(upload, offset)
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

/**
 * Where to go on. An empty PATCH settles it: what an earlier connection still had in its buffers is then
 * written or refused, so the offset holds. Registries that do not take one are asked for the status.
 */
const resumePoint = async (
  transport: Transport,
  session: string,
  signal: AbortSignal | undefined,
): Promise<{ location: string; offset: number } | undefined> => {
  const ask = async (method: 'GET' | 'PATCH', expect: number[]): Promise<WireAnswer> => {
    const headers = method === 'GET' ? {} : { ...noBody, 'content-type': octets }
    const answer = await transport.once({ method, path: session, headers, expect, signal })
    await discard(answer)
    return answer
  }
  const settled = await ask('PATCH', [202, 400, 404, 405, 411, 416])
  const answer = settled.status === 202 ? settled : await ask('GET', [202, 204, 400, 404])
  if (answer.status >= 400) return undefined
  const last = /^(?:bytes=)?0-(\d{1,15})$/.exec(answer.header('range') ?? '')?.[1] ?? '0'
  const location = answer.header('location')
  // `0-0` means one byte or none, which is not worth finding out.
  return {
    location: location === undefined ? session : transport.follow(location, session),
    offset: last === '0' ? 0 : Number(last) + 1,
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
  if (offset > 0 || upload.isVerified === true) return stream
  const verifier = createVerifier({ digest, size })
  pipeline(stream, verifier, () => {})
  return verifier
}

const octets = 'application/octet-stream'
const noBody = { 'content-length': '0' }
