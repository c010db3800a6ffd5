import { Readable } from 'node:stream'
import { createContentCheck } from '../digest.ts'
import { isOciError, OciError } from '../errors.ts'
import type { Digest } from '../reference.ts'
import { aborted, TransientFailure, waitOrGiveUp } from './retry.ts'
import { anySignal, discard } from './transport.ts'
import type { Transport, WireAnswer } from './transport.ts'

export interface GetBlobOptions {
  /** Starts in the middle; then only the length can be checked, not the digest. */
  offset?: number
  /** The size its descriptor gives; more than that is never read. */
  size?: number
  /** Told of every chunk before it is passed on; a promise holds the reading back. */
  onChunk?: (bytes: number) => Promise<void> | void
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
  // A reader that leaves early ends the request too, instead of leaving it to its timeout.
  const left = new AbortController()
  const signal = anySignal(transport.signal, options.signal, left.signal)
  const first = await transport.send({ method: 'GET', path, signal, ...rangeFrom(start) })
  const opened = await checkOpened(first, start, options.size)
  const { onChunk } = options
  const chunks = readResuming(transport, { path, digest, start, size: opened, signal, onChunk }, first)
  const stream = Readable.from(chunks, { objectMode: false, highWaterMark: 256 * 1024 })
  leaveAtOnce(stream, left)
  return { size: opened, stream }
}

/** Before the generator is asked to end: that waits for its next chunk, which may never come. */
const leaveAtOnce = (stream: Readable, left: AbortController): void => {
  const destroy = stream._destroy.bind(stream)
  stream._destroy = (error, done) => {
    left.abort()
    destroy(error, done)
  }
}

interface Download {
  path: string
  digest: Digest
  start: number
  size: number
  signal: AbortSignal | undefined
  onChunk: GetBlobOptions['onChunk']
}

async function* readResuming(
  transport: Transport,
  download: Download,
  first: WireAnswer,
): AsyncGenerator<Buffer> {
  const { path, start, size, digest, signal, onChunk } = download
  const check = start === 0 ? createContentCheck({ digest, size }) : undefined
  let at = start
  let failures = 0
  let answer: WireAnswer | undefined = first
  while (at < size || answer !== undefined) {
    try {
      answer ??= await transport.once({ method: 'GET', path, signal, ...rangeFrom(at) })
      if (answer !== first) await checkOpened(answer, at, size)
      // A registry without ranges answers with the whole blob; what is known already is passed over.
      let skip = answer.status === 200 ? at : 0
      for await (const chunk of answer.body) {
        const bytes = (chunk as Buffer).subarray(skip)
        skip = Math.max(0, skip - (chunk as Buffer).byteLength)
        if (bytes.byteLength === 0) continue
        at += bytes.byteLength
        if (at > size) throw tooLong(size)
        check?.update(bytes)
        failures = 0
        const held = onChunk?.(bytes.byteLength)
        if (held !== undefined) await held
        yield bytes
      }
      if (at < size) throw new TransientFailure('The registry broke off a blob')
    } catch (error) {
      if (signal?.aborted) throw aborted(signal)
      if (isOciError(error)) throw error
      const failure =
        error instanceof TransientFailure ? error : new TransientFailure('A blob broke off', { cause: error })
      failures++
      await waitOrGiveUp(transport.retry, failures, failure, signal)
    }
    answer = undefined
  }
  check?.finish()
}

const rangeFrom = (start: number) =>
  start === 0 ? { expect: [200] } : { headers: { range: `bytes=${start}-` }, expect: [200, 206] }

/** Answers the size of the whole blob, taken from the answer and held against what is expected. */
const checkOpened = async (
  answer: WireAnswer,
  start: number,
  expected: number | undefined,
): Promise<number> => {
  const size = announcedSize(answer, start) ?? (answer.status === 200 ? expected : undefined)
  if (size !== undefined && (expected === undefined || expected === size)) return size
  answer.body.destroy()
  await discard(answer).catch(() => {})
  if (size === undefined) {
    throw new OciError('RESPONSE_INVALID', 'The registry does not say which part of how long a blob it sends')
  }
  throw new OciError('SIZE_MISMATCH', `The blob has ${size} bytes, its descriptor says ${expected}`)
}

const announcedSize = (answer: WireAnswer, start: number): number | undefined => {
  const whole =
    answer.status === 200
      ? /^(\d{1,15})$/.exec(answer.header('content-length') ?? '')
      : new RegExp(`^bytes ${start}-\\d{1,15}/(\\d{1,15})$`).exec(answer.header('content-range') ?? '')
  return whole?.[1] === undefined ? undefined : Number(whole[1])
}

const tooLong = (size: number): OciError =>
  new OciError('SIZE_MISMATCH', `The registry sent more than the ${size} bytes it announced`)
