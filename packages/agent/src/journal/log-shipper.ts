import { BULK_LOG, encodeBulk, LOG_WINDOW, MAX_BULK_PAYLOAD, type AgentFrame } from '@tenon/protocol'
import type { Logger } from 'pino'
import { MASK_CONTEXT_BYTES, MaskStream, type Mask } from '../masking/mask.ts'
import type { Runtime } from '../runtime/runtime.ts'

export interface LogLink {
  readonly isOpen: boolean
  send(frame: AgentFrame): boolean
  sendBulk(bytes: Uint8Array): Promise<void>
}

export interface LogShipperOptions {
  runtime: Pick<Runtime, 'logs'>
  link: LogLink
  /** What is shipped of one job's log; the rest is dropped, and counted when the job ends. */
  maxBytesPerJob: number
  onAck: (jobId: string, fence: number, acked: number, ended: boolean) => void
  log: Logger
}

/** One job's log on its way. It outlives sessions: each session opens a new stream and goes on where the server stands. */
interface Shipment {
  jobId: string
  fence: number
  /** How far the log was read, at most the bound. */
  read: number
  acked: number
  /** What must not be seen in it, so far. */
  mask: () => Mask
  /** Known once the end was read. */
  total: number | undefined
  stream: Stream | undefined
  onShipped: (() => void)[]
}

interface Stream {
  id: number
  /** Unknown until the server answered `log.open` with its offset. */
  acked: number | undefined
  abort: AbortController
  wake: () => void
}

/** Sends every log byte once, in order, within a window that the server opens by acknowledging. */
export class LogShipper {
  readonly #options: LogShipperOptions
  readonly #shipments = new Map<string, Shipment>()
  readonly #streams = new Map<number, Shipment>()
  #nextStream = 1

  constructor(options: LogShipperOptions) {
    this.#options = options
  }

  /** From the job's start on, or again after a restart of the agent. */
  add(jobId: string, fence: number, acked: number, mask: () => Mask): void {
    if (this.#shipments.has(jobId)) return
    const shipment: Shipment = {
      jobId,
      fence,
      read: acked,
      acked,
      mask,
      total: undefined,
      stream: undefined,
      onShipped: [],
    }
    this.#shipments.set(jobId, shipment)
    if (this.#options.link.isOpen) this.#open(shipment)
  }

  remove(jobId: string): void {
    const shipment = this.#shipments.get(jobId)
    if (!shipment) return
    this.#close(shipment)
    this.#shipments.delete(jobId)
    for (const resolve of shipment.onShipped.splice(0)) resolve()
  }

  connected(): void {
    for (const shipment of this.#shipments.values()) if (!isShipped(shipment)) this.#open(shipment)
  }

  disconnected(): void {
    for (const shipment of this.#shipments.values()) this.#close(shipment)
  }

  /** The server's answer to `log.open`, and its word for what it has stored. */
  ack(streamId: number, offset: number): void {
    const shipment = this.#streams.get(streamId)
    const stream = shipment?.stream
    if (!shipment || !stream) return
    stream.acked = Math.max(stream.acked ?? 0, offset)
    shipment.acked = stream.acked
    const { jobId, fence, acked } = shipment
    this.#options.onAck(jobId, fence, acked, isShipped(shipment))
    stream.wake()
  }

  /** How far the log of a job was read, so that counting it needs to read the rest only. */
  readUpTo(jobId: string): number {
    return this.#shipments.get(jobId)?.read ?? 0
  }

  get unacknowledgedBytes(): number {
    let bytes = 0
    for (const shipment of this.#shipments.values()) bytes += Math.max(0, shipment.read - shipment.acked)
    return bytes
  }

  /** What the server does not have yet of what was read. */
  unshippedBytes(jobId: string): number {
    const shipment = this.#shipments.get(jobId)
    return shipment ? Math.max(0, shipment.read - shipment.acked) : 0
  }

  /** Resolves when the server has the whole log, or there is nothing to ship. */
  shipped(jobId: string): Promise<void> {
    const shipment = this.#shipments.get(jobId)
    if (!shipment || isShipped(shipment)) return Promise.resolve()
    return new Promise((resolve) => shipment.onShipped.push(resolve))
  }

  #open(shipment: Shipment): void {
    const stream: Stream = {
      id: this.#nextStream++,
      acked: undefined,
      abort: new AbortController(),
      wake: () => undefined,
    }
    shipment.stream = stream
    this.#streams.set(stream.id, shipment)
    const { jobId, fence } = shipment
    this.#options.link.send({ type: 'log.open', stream: stream.id, jobId, fence })
    this.#pump(shipment, stream).catch((error: unknown) => {
      if (stream.abort.signal.aborted) return
      this.#options.log.error({ err: error, jobId }, 'the log of a job could not be read')
      this.#end(shipment, stream, shipment.acked).catch(() => undefined)
    })
  }

  #close(shipment: Shipment): void {
    const { stream } = shipment
    if (!stream) return
    this.#streams.delete(stream.id)
    shipment.stream = undefined
    stream.abort.abort()
    stream.wake()
  }

  async #pump(shipment: Shipment, stream: Stream): Promise<void> {
    const { runtime, maxBytesPerJob } = this.#options
    const { signal } = stream.abort
    while (stream.acked === undefined && !signal.aborted) await changed(stream)
    let offset = stream.acked ?? 0
    if (offset < maxBytesPerJob) {
      for await (const chunk of maskedLog(runtime, shipment, offset, signal)) {
        const kept = chunk.subarray(0, maxBytesPerJob - offset)
        for (let from = 0; from < kept.byteLength && !signal.aborted; from += MAX_BULK_PAYLOAD) {
          const payload = kept.subarray(from, from + MAX_BULK_PAYLOAD)
          await this.#sendPart(shipment, stream, offset, payload)
          offset += payload.byteLength
        }
        if (signal.aborted) return
        if (offset >= maxBytesPerJob) break
      }
    }
    if (!signal.aborted) await this.#end(shipment, stream, offset)
  }

  async #sendPart(shipment: Shipment, stream: Stream, offset: number, payload: Uint8Array): Promise<void> {
    const { signal } = stream.abort
    const end = offset + payload.byteLength
    while (end - (stream.acked ?? 0) > LOG_WINDOW && !signal.aborted) await changed(stream)
    if (signal.aborted) return
    await this.#options.link.sendBulk(encodeBulk({ kind: BULK_LOG, stream: stream.id, offset, payload }))
    shipment.read = Math.max(shipment.read, end)
  }

  /** The end is told once everything before it is stored: the server lets go of the stream then. */
  async #end(shipment: Shipment, stream: Stream, total: number): Promise<void> {
    shipment.total = total
    while (!isShipped(shipment) && !stream.abort.signal.aborted) await changed(stream)
    if (stream.abort.signal.aborted) return
    this.#options.link.send({ type: 'log.end', stream: stream.id, bytes: total })
    this.#settle(shipment)
  }

  #settle(shipment: Shipment): void {
    const { jobId, fence, acked } = shipment
    this.#options.onAck(jobId, fence, acked, true)
    this.#close(shipment)
    for (const resolve of shipment.onShipped.splice(0)) resolve()
  }
}

/** From a byte on; what stands before it is read too, since a secret may reach over that place. */
async function* maskedLog(
  runtime: Pick<Runtime, 'logs'>,
  { jobId, mask }: Shipment,
  offset: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const start = Math.max(0, offset - MASK_CONTEXT_BYTES)
  const stream = new MaskStream(mask)
  let skip = offset - start
  const shown = (masked: Buffer) => {
    const part = masked.subarray(skip)
    skip -= masked.byteLength - part.byteLength
    return part
  }
  for await (const chunk of runtime.logs(jobId, start, signal)) {
    const part = shown(stream.write(chunk))
    if (part.byteLength > 0) yield part
  }
  yield shown(stream.end())
}

function isShipped(shipment: Shipment): boolean {
  return shipment.total !== undefined && shipment.acked >= shipment.total
}

function changed(stream: Stream): Promise<void> {
  return new Promise((resolve) => (stream.wake = resolve))
}
