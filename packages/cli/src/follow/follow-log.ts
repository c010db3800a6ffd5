import type { Client } from '@tenon/protocol'
import type { Clock } from '../io.ts'
import { createReconnect } from './reconnect.ts'

export interface LogSink {
  client: Client
  clock: Clock
  signal: AbortSignal
  onBytes(bytes: Uint8Array, offset: number): Promise<void>
  onAway(): void
}

/** A lost job's log may grow again when its agent is back, but nobody knows when. */
const ENDED = new Set(['succeeded', 'failed', 'canceled', 'lapsed', 'lost'])

/** A job's log from the start; with `follow` until the job has ended and all of its bytes are here, none twice. */
export async function followLog(jobId: string, follow: boolean, sink: LogSink): Promise<void> {
  const { client, signal } = sink
  const reconnect = createReconnect(sink.clock, signal, sink.onAway)
  let offset = 0
  while (!signal.aborted) {
    let failure: unknown
    try {
      const query = { offset, follow: follow ? '1' : '0' } as const
      const response = await client.call('jobs.logs', { params: { id: jobId }, query }, { signal })
      for await (const bytes of response.body ?? []) {
        reconnect.alive()
        await sink.onBytes(bytes, offset)
        offset += bytes.length
      }
      if (!follow) return
      const job = await client.call('jobs.get', { params: { id: jobId } }, { signal })
      if (ENDED.has(job.status) && offset >= job.logBytes) return
    } catch (error) {
      if (signal.aborted) return
      failure = error
    }
    await reconnect.pause(failure)
  }
}
