import { LOG_WINDOW } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { storeLogChunk } from '../jobs/logs.ts'

/** Small enough to be quick, large enough that a chatty job makes few files and rows. */
const CHUNK_BYTES = 131_072
const CHUNK_DELAY_MS = 100
const RETRY_MS = 1_000

/** Takes the bytes of one job's log in order, makes them durable in chunks, and acknowledges only what is durable. */
export interface LogSink {
  readonly jobId: string
  /** False when the sender left a gap or sent more than its window. Bytes that are already here are skipped. */
  write(offset: number, payload: Uint8Array): boolean
  /** The last byte was sent: what is here is stored and acknowledged without delay, then `onEnd` is called. */
  end(): void
  close(): void
}

export function createLogSink(
  context: Context,
  jobId: string,
  start: number,
  acknowledge: (offset: number) => void,
  onEnd: () => void,
): LogSink {
  let durable = start
  let received = start
  let pending: Uint8Array[] = []
  let timer: NodeJS.Timeout | undefined
  let storing = false
  let closed = false
  let ended = false

  function schedule(delay: number): void {
    if (!storing && !closed && received > durable) timer ??= setTimeout(() => void store(), delay)
  }

  async function store(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    storing = true
    const bytes = Buffer.concat(pending)
    pending = [bytes]
    const added = received
    try {
      const stored = await storeLogChunk(context, jobId, durable, bytes)
      pending.shift()
      durable = added
      if (stored === added && !closed) acknowledge(durable)
      else closed = true
      storing = false
      if (ended && durable === received) onEnd()
      schedule(CHUNK_DELAY_MS)
    } catch (error) {
      // Kept here and not acknowledged: the sender's window bounds it, and it is tried again.
      context.log.warn({ err: error, jobId }, 'a piece of a log could not be stored yet')
      storing = false
      schedule(RETRY_MS)
    }
  }

  return {
    jobId,
    write(offset, payload) {
      if (closed) return true
      const end = offset + payload.byteLength
      if (offset > received || end - durable > 2 * LOG_WINDOW) return false
      if (end <= received) return true
      pending.push(Uint8Array.prototype.slice.call(payload, received - offset))
      received = end
      if (received - durable >= CHUNK_BYTES && !storing) void store()
      else schedule(CHUNK_DELAY_MS)
      return true
    },
    end() {
      ended = true
      if (received === durable) onEnd()
      else if (!storing) void store()
    },
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}
