import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Transform } from 'node:stream'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Dispatcher } from 'undici'
import { OciError } from '../errors.ts'
import type { Digest } from '../reference.ts'
import { createContentCheck } from '../digest.ts'
import { basicHeader } from './credentials.ts'
import { sendHttp } from './http.ts'
import type { HttpAnswer } from './http.ts'
import { aborted, defaultRetry, parseRetryAfter, TransientFailure, withRetries } from './retry.ts'

export interface DownloadOptions {
  maxBytes: number
  /** What it must be. */
  digest?: Digest
  credential?: { username: string; password: string } | undefined
  dispatcher?: Dispatcher | undefined
  signal?: AbortSignal | undefined
}

const MAX_HOPS = 5

/** A plain file from a web server, such as an archive of a chart repository. A failure leaves nothing behind. */
export const downloadFile = async (url: URL, file: string, options: DownloadOptions): Promise<void> =>
  withRetries(defaultRetry, options.signal, async () => {
    const answer = await follow(url, options)
    const check = options.digest === undefined ? undefined : createContentCheck({ digest: options.digest })
    let size = 0
    const measure = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        size += chunk.byteLength
        check?.update(chunk)
        if (size > options.maxBytes) done(tooLarge(url, options.maxBytes))
        else done(null, chunk)
      },
    })
    try {
      await pipeline(answer, measure, createWriteStream(file))
      check?.finish()
    } catch (cause) {
      await rm(file, { force: true })
      if (options.signal?.aborted) throw aborted(options.signal)
      if (cause instanceof OciError) throw cause
      throw new TransientFailure(`${url.host} broke off its answer`, { cause })
    }
  })

/** Follows redirects by itself: credentials stay with the server they are for, and encryption is never given up. */
const follow = async (url: URL, options: DownloadOptions): Promise<Readable> => {
  let at = url
  for (let hops = 0; hops <= MAX_HOPS; hops++) {
    const { statusCode, headers, body } = await get(at, at.host === url.host, options)
    if (statusCode === 200) return body
    body.destroy()
    const location = headers['location']
    if (
      statusCode >= 300 &&
      statusCode < 400 &&
      typeof location === 'string' &&
      URL.canParse(location, at.href)
    ) {
      const next = new URL(location, at)
      const isSafe = next.protocol === 'https:' || (at.protocol === 'http:' && next.protocol === 'http:')
      if (!isSafe)
        throw new OciError('REDIRECT_REFUSED', `${at.host} redirects to ${next.host} without encryption`)
      at = next
    } else {
      throw failure(at, statusCode, headers['retry-after'])
    }
  }
  throw new OciError('REDIRECT_REFUSED', `${url.host} redirects more than ${MAX_HOPS} times`)
}

const get = async (url: URL, isOwn: boolean, options: DownloadOptions): Promise<HttpAnswer> => {
  const { credential, signal, dispatcher } = options
  try {
    return await sendHttp(url, {
      method: 'GET',
      headers: credential === undefined || !isOwn ? {} : { authorization: basicHeader(credential) },
      signal,
      dispatcher,
    })
  } catch (cause) {
    if (signal?.aborted) throw aborted(signal)
    throw new TransientFailure(`${url.host} cannot be reached`, { cause })
  }
}

const failure = (url: URL, status: number, wish: string | string[] | undefined): Error => {
  const message = `${url.origin}${url.pathname} answered ${status}`
  if (status === 429 || status >= 500) {
    const retryAfterMs = parseRetryAfter(Array.isArray(wish) ? wish[0] : wish, Date.now())
    return new TransientFailure(message, { retryAfterMs })
  }
  if (status === 401) return new OciError('UNAUTHORIZED', `${message}; check the credentials`)
  if (status === 403) return new OciError('DENIED', `${message}; ask for access`)
  return new OciError(status === 404 ? 'NOT_FOUND' : 'REFUSED', message)
}

const tooLarge = (url: URL, limit: number): OciError =>
  new OciError('TOO_LARGE', `${url.origin}${url.pathname} has more than ${limit} bytes`)
