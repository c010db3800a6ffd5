import { setTimeout as sleep } from 'node:timers/promises'
import { OciError } from '../errors.ts'

/** Spares a source that many read from; one limit may be shared by any number of copies. */
export interface SourceLimit {
  /** Waits for a free place; the answer gives it back. */
  enter(signal: AbortSignal | undefined): Promise<() => void>
  /** Waits until this many bytes more may be read. */
  take(bytes: number, signal: AbortSignal | undefined): Promise<void>
}

export interface SourceLimitOptions {
  /** Blobs read at the same time. */
  concurrent?: number
  bytesPerSecond?: number
  /** What may be read at once after a pause; a second's worth without it. */
  burstBytes?: number
  /** Milliseconds that only go forward. */
  clock?: () => number
}

export const createSourceLimit = (options: SourceLimitOptions): SourceLimit => {
  const clock = options.clock ?? (() => performance.now())
  const gate = createGate(options.concurrent ?? Infinity)
  const rate = options.bytesPerSecond
  const bucket =
    rate === undefined ? undefined : createBucket({ rate, burst: options.burstBytes ?? rate, now: clock() })
  return {
    enter: gate,
    take: async (bytes, signal) => {
      const ms = bucket?.take(bytes, clock()) ?? 0
      if (ms > 0) await pause(ms, signal)
    },
  }
}

/** Pure but for its own state: a token bucket that goes into debt and answers how long that takes to pay. */
export const createBucket = ({ rate, burst, now }: { rate: number; burst: number; now: number }) => {
  let tokens = burst
  let filledAt = now
  return {
    take: (bytes: number, at: number): number => {
      tokens = Math.min(burst, tokens + ((at - filledAt) / 1000) * rate) - bytes
      filledAt = at
      return tokens >= 0 ? 0 : (-tokens / rate) * 1000
    },
  }
}

/** First come, first served; who is canceled while waiting leaves the queue. */
const createGate = (places: number) => {
  let free = places
  const queue: (() => void)[] = []
  const leave = (): void => {
    const next = queue.shift()
    if (next === undefined) free++
    else next()
  }
  return async (signal: AbortSignal | undefined): Promise<() => void> => {
    if (signal?.aborted) throw canceled(signal)
    if (free > 0) free--
    else {
      await new Promise<void>((resolve, reject) => {
        const stop = (): void => {
          queue.splice(queue.indexOf(enter), 1)
          reject(canceled(signal))
        }
        const enter = (): void => {
          signal?.removeEventListener('abort', stop)
          resolve()
        }
        queue.push(enter)
        signal?.addEventListener('abort', stop, { once: true })
      })
    }
    let isIn = true
    return () => {
      if (isIn) leave()
      isIn = false
    }
  }
}

const pause = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal })
  } catch (cause) {
    throw signal?.aborted ? canceled(signal) : cause
  }
}

const canceled = (signal: AbortSignal | undefined): OciError =>
  new OciError('ABORTED', 'The transfer was canceled', { cause: signal?.reason })
