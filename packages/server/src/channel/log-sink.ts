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
  return new StoringSink(context, jobId, start, { acknowledge, onEnd })
}

interface Tell {
  acknowledge(offset: number): void
  onEnd(): void
}

class StoringSink implements LogSink {
  readonly jobId: string
  readonly #context: Context
  readonly #tell: Tell
  #durable: number
  #received: number
  #pending: Uint8Array[] = []
  #timer: NodeJS.Timeout | undefined
  #storing = false
  #closed = false
  #ended = false

  constructor(context: Context, jobId: string, start: number, tell: Tell) {
    this.jobId = jobId
    this.#context = context
    this.#tell = tell
    this.#durable = start
    this.#received = start
  }

  write(offset: number, payload: Uint8Array): boolean {
    if (this.#closed) return true
    const end = offset + payload.byteLength
    if (offset > this.#received || end - this.#durable > 2 * LOG_WINDOW) return false
    if (end <= this.#received) return true
    this.#pending.push(Uint8Array.prototype.slice.call(payload, this.#received - offset))
    this.#received = end
    if (this.#received - this.#durable >= CHUNK_BYTES && !this.#storing) void this.#store()
    else this.#schedule(CHUNK_DELAY_MS)
    return true
  }

  end(): void {
    this.#ended = true
    if (this.#received === this.#durable) this.#tell.onEnd()
    else if (!this.#storing) void this.#store()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #schedule(delay: number): void {
    if (!this.#storing && !this.#closed && this.#received > this.#durable)
      this.#timer ??= setTimeout(() => void this.#store(), delay)
  }

  async #store(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#storing = true
    const bytes = Buffer.concat(this.#pending)
    this.#pending = [bytes]
    const added = this.#received
    try {
      const stored = await storeLogChunk(this.#context, this.jobId, this.#durable, bytes)
      this.#pending.shift()
      this.#durable = added
      if (stored === added && !this.#closed) this.#tell.acknowledge(added)
      else this.#closed = true
      this.#storing = false
      if (this.#ended && this.#durable === this.#received) this.#tell.onEnd()
      this.#schedule(CHUNK_DELAY_MS)
    } catch (error) {
      // Kept here and not acknowledged: the sender's window bounds it, and it is tried again.
      this.#context.log.warn({ err: error, jobId: this.jobId }, 'a piece of a log could not be stored yet')
      this.#storing = false
      this.#schedule(RETRY_MS)
    }
  }
}
