import type { Readable } from 'node:stream'
import { sessionKey } from '../client/blob-upload.ts'
import type { Descriptor } from '../manifest.ts'
import type { CopyOptions } from './copy-artifact.ts'
import type { Transfers } from './transfers.ts'

export type BlobJob = CopyOptions & { signal: AbortSignal; transfers: Transfers }

/** Skips what is there, mounts what the registry holds elsewhere, sends the rest. True when bytes went over. */
export const copyBlob = async (
  job: BlobJob,
  blob: Descriptor,
  reached: (bytes: number) => void,
): Promise<boolean> => {
  const { from, to, signal } = job
  if (await to.client.hasBlob(to.repository, blob.digest, { signal })) {
    // A process that died between the blob's last byte and its own note of it left the upload remembered.
    await job.sessions?.delete(sessionKey(to.client.origin, to.repository, blob.digest))
    return false
  }
  const wanted = { origin: to.client.origin, repository: to.repository, digest: blob.digest, signal }
  return job.transfers.share(wanted, async (held) => {
    if (held !== undefined && (await to.client.hasBlob(to.repository, blob.digest, { signal }))) return false
    const isSame = from.client.origin === to.client.origin
    for (const other of [held, isSame ? from.repository : undefined]) {
      if (other === undefined || other === to.repository) continue
      if (await to.client.mountBlob(to.repository, blob.digest, other, { signal })) return false
    }
    await sendBlob(job, blob, reached)
    return true
  })
}

const sendBlob = async (job: BlobJob, blob: Descriptor, reached: (bytes: number) => void): Promise<void> => {
  const { from, to, signal, limit } = job
  const { digest, size } = blob
  const open = async (offset: number): Promise<Readable> => {
    const leave = await limit?.enter(signal)
    let at = offset
    const onChunk = (bytes: number): Promise<void> | undefined => {
      at += bytes
      reached(at)
      return limit?.take(bytes, signal)
    }
    try {
      const get = { offset, size, signal, onChunk }
      const { stream } = await from.client.getBlob(from.repository, digest, get)
      stream.once('close', () => leave?.())
      return stream
    } catch (error) {
      leave?.()
      throw error
    }
  }
  await to.client.putBlob(to.repository, digest, size, open, {
    signal,
    isVerified: true,
    ...(job.sessions === undefined ? {} : { sessions: job.sessions }),
  })
}
