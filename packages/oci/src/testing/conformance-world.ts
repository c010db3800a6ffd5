import { mediaTypes, sha256Digest } from '../index.ts'
import type { Digest } from '../index.ts'
import { rawRequest } from './raw-http.ts'
import type { RawAnswer } from './raw-http.ts'
import { createRegistryWorld } from './registry-world.ts'
import type { RegistryWorld } from './registry-world.ts'

/** A listening registry with something in it, and short words for the requests of the specification. */
export interface ConformanceWorld {
  world: RegistryWorld
  url: string
  call(method: string, path: string, options?: CallOptions): Promise<RawAnswer>
  blob(repository: string, bytes: Uint8Array): Promise<{ mediaType: string; digest: Digest; size: number }>
  manifest(repository: string, reference: string, fields: object, mediaType?: string): Promise<Pushed>
  upload(repository: string): Promise<string>
  close(): Promise<void>
}

interface CallOptions {
  body?: Uint8Array
  headers?: Record<string, string>
}

interface Pushed {
  answer: RawAnswer
  bytes: Buffer
  digest: Digest
  descriptor: { mediaType: string; digest: Digest; size: number }
}

export const createConformanceWorld = async (): Promise<ConformanceWorld> => {
  const world = await createRegistryWorld()
  // Whoever holds this bearer may do everything, deleting included.
  const { url } = await world.start({
    deletes: true,
    authorize: async ({ bearer, repository }) => {
      if (bearer !== 'all') return { ok: false, status: 401, message: 'Credentials are required' }
      return repository === 'closed' ? { ok: false, status: 403, message: 'Closed' } : { ok: true }
    },
  })
  const call = (method: string, path: string, options: CallOptions = {}): Promise<RawAnswer> =>
    rawRequest(url, method, path, { bearer: 'all', ...options })
  const done = (answer: RawAnswer, status: number): RawAnswer => {
    if (answer.status !== status) throw new Error(`answered ${answer.status}: ${answer.body.toString()}`)
    return answer
  }
  return {
    world,
    url,
    call,
    blob: async (repository, bytes) => {
      const digest = sha256Digest(bytes)
      done(await call('POST', `/v2/${repository}/blobs/uploads/?digest=${digest}`, { body: bytes }), 201)
      return { mediaType: 'application/octet-stream', digest, size: bytes.byteLength }
    },
    manifest: async (repository, reference, fields, mediaType = mediaTypes.manifest) => {
      const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, ...fields }))
      const digest = sha256Digest(bytes)
      const headers = { 'content-type': mediaType }
      const path = `/v2/${repository}/manifests/${reference === '' ? digest : reference}`
      const answer = await call('PUT', path, { body: bytes, headers })
      return { answer, bytes, digest, descriptor: { mediaType, digest, size: bytes.byteLength } }
    },
    upload: async (repository) =>
      done(await call('POST', `/v2/${repository}/blobs/uploads/`), 202).headers.location ?? '',
    close: () => world.close(),
  }
}

export const json = (answer: RawAnswer): unknown => JSON.parse(answer.body.toString())
