import { Readable } from 'node:stream'
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
  if (await to.client.hasBlob(to.repository, blob.digest, { signal })) return false
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
    try {
      const { stream } = await from.client.getBlob(from.repository, digest, { offset, size, signal })
      const paced = paceAndCount(stream, offset, job, reached)
      const readable = Readable.from(paced, { objectMode: false, highWaterMark: 1 })
      readable.once('close', () => leave?.())
      return readable
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

async function* paceAndCount(
  stream: Readable,
  offset: number,
  { limit, signal }: BlobJob,
  reached: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  let at = offset
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    if (limit !== undefined) await limit.take(chunk.byteLength, signal)
    at += chunk.byteLength
    reached(at)
    yield chunk
  }
}
