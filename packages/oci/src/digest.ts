import { createHash } from 'node:crypto'
import { Transform } from 'node:stream'
import { OciError } from './errors.ts'
import { digestAlgorithm } from './reference.ts'
import type { Digest, DigestAlgorithm } from './reference.ts'

export const digestOf = (algorithm: DigestAlgorithm, bytes: Uint8Array): Digest =>
  `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}`

/** What Tenon itself names content by. */
export const sha256Digest = (bytes: Uint8Array): `sha256:${string}` =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`

export const verifyBytes = (bytes: Uint8Array, digest: Digest): void => {
  const actual = digestOf(digestAlgorithm(digest), bytes)
  if (actual !== digest) throw mismatch(digest, actual)
}

/** Counts and hashes what passes; `finish` throws unless it was exactly the expected content. */
export interface ContentCheck {
  update(chunk: Uint8Array): void
  finish(): void
}

export const createContentCheck = (expected: { digest: Digest; size?: number }): ContentCheck => {
  const algorithm = digestAlgorithm(expected.digest)
  const hash = createHash(algorithm)
  let seen = 0
  return {
    update: (chunk) => {
      seen += chunk.byteLength
      if (expected.size !== undefined && seen > expected.size) throw wrongSize(expected.size, seen)
      hash.update(chunk)
    },
    finish: () => {
      if (expected.size !== undefined && seen !== expected.size) throw wrongSize(expected.size, seen)
      const actual: Digest = `${algorithm}:${hash.digest('hex')}`
      if (actual !== expected.digest) throw mismatch(expected.digest, actual)
    },
  }
}

/** Passes bytes on as they come and fails at the end when they were not the expected content. */
export const createVerifier = (expected: { digest: Digest; size?: number }): Transform => {
  const check = createContentCheck(expected)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      try {
        check.update(chunk)
        done(null, chunk)
      } catch (error) {
        done(error as Error)
      }
    },
    flush(done) {
      try {
        check.finish()
        done()
      } catch (error) {
        done(error as Error)
      }
    },
  })
}

const mismatch = (expected: Digest, actual: Digest): OciError =>
  new OciError('DIGEST_MISMATCH', `The content is ${actual}, not ${expected}; fetch or send it again`)

const wrongSize = (expected: number, seen: number): OciError =>
  new OciError(
    'SIZE_MISMATCH',
    `The content was cut or is longer: ${seen} bytes seen, expected ${expected}; fetch or send it again`,
  )
