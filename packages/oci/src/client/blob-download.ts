import { Readable } from 'node:stream'
import { createContentCheck } from '../digest.ts'
import { isOciError, OciError } from '../errors.ts'
import type { Digest } from '../reference.ts'
import { aborted, pause, retryDelay, TransientFailure, unavailable } from './retry.ts'
import { anySignal, discard } from './transport.ts'
import type { Transport, WireAnswer } from './transport.ts'

export interface GetBlobOptions {
  /** Starts in the middle; then only the length can be checked, not the digest. */
  offset?: number
  /** The size its descriptor gives; more than that is never read. */
  size?: number
  signal?: AbortSignal
}

export interface BlobDownload {
  size: number
  stream: Readable
}

/** The stream goes on at the missing byte after a break, and fails at its end on a wrong digest. */
export const downloadBlob = async (
  transport: Transport,
  repository: string,
  digest: Digest,
  options: GetBlobOptions,
): Promise<BlobDownload> => {
  const path = `/v2/${repository}/blobs/${digest}`
  const start = options.offset ?? 0
  const signal = anySignal(transport.signal, options.signal)
  const first = await transport.send({ method: 'GET', path, signal, ...rangeFrom(start) })
  const opened = await checkOpened(first, start, options.size)
  const chunks = readResuming(transport, { path, digest, start, size: opened, signal }, first)
  return { size: opened, stream: Readable.from(chunks, { objectMode: false, highWaterMark: 256 * 1024 }) }
}

interface Download {
  path: string
  digest: Digest
  start: number
  size: number
  signal: AbortSignal | undefined
}

async function* readResuming(
  transport: Transport,
  download: Download,
  first: WireAnswer,
): AsyncGenerator<Buffer> {
  const { path, start, size, digest, signal } = download
  const check = start === 0 ? createContentCheck({ digest, size }) : undefined
  let at = start
  let failures = 0
  let answer: WireAnswer | undefined = first
  while (at < size || answer !== undefined) {
    try {
      answer ??= await transport.once({ method: 'GET', path, signal, ...rangeFrom(at) })
      if (answer !== first) await checkOpened(answer, at, size)
      for await (const chunk of answer.body) {
        const bytes = chunk as Buffer
        at += bytes.byteLength
        if (at > size)
          throw new OciError('SIZE_MISMATCH', `The registry sent more than the ${size} bytes announced`)
        check?.update(bytes)
        failures = 0
        yield bytes
      }
      if (at < size) throw new TransientFailure('The registry broke off a blob')
    } catch (error) {
      if (signal?.aborted) throw aborted(signal)
      if (isOciError(error)) throw error
      const failure =
        error instanceof TransientFailure ? error : new TransientFailure('A blob broke off', { cause: error })
      failures++
      if (failures >= transport.retry.attempts) throw unavailable(failure)
      await pause(retryDelay(transport.retry, failures, failure.retryAfterMs), signal)
    }
    answer = undefined
  }
  check?.finish()
}

const rangeFrom = (start: number) =>
  start === 0 ? { expect: [200] } : { headers: { range: `bytes=${start}-` }, expect: [206] }

/** Answers the size of the whole blob, taken from the answer and held against what is expected. */
const checkOpened = async (
  answer: WireAnswer,
  start: number,
  expected: number | undefined,
): Promise<number> => {
  const whole =
    answer.status === 200
      ? /^(\d{1,15})$/.exec(answer.header('content-length') ?? '')
      : new RegExp(`^bytes ${start}-\\d{1,15}/(\\d{1,15})$`).exec(answer.header('content-range') ?? '')
  const size = whole?.[1] === undefined ? expected : Number(whole[1])
  if (size !== undefined && (expected === undefined || expected === size)) return size
  answer.body.destroy()
  await discard(answer).catch(() => {})
  if (size === undefined)
    throw new OciError('RESPONSE_INVALID', 'The registry does not say how long the blob is')
  throw new OciError('SIZE_MISMATCH', `The blob has ${size} bytes, its descriptor says ${expected}`)
}
