import { setTimeout as sleep } from 'node:timers/promises'
import { OciError } from '../errors.ts'

export interface RetryPolicy {
  attempts: number
  baseDelayMs: number
  maxDelayMs: number
  random: () => number
}

export const defaultRetry: RetryPolicy = {
  attempts: 4,
  baseDelayMs: 200,
  maxDelayMs: 10_000,
  random: Math.random,
}

/** A failure that may pass by itself; `retryAfterMs` is what the registry asked for. */
export class TransientFailure extends Error {
  readonly retryAfterMs: number | undefined

  constructor(message: string, options: { cause?: unknown; retryAfterMs?: number | undefined } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause })
    this.name = 'TransientFailure'
    this.retryAfterMs = options.retryAfterMs
  }
}

/** Full jitter, doubled each time; a registry's own wish counts, up to the bound. */
export const retryDelay = (
  policy: RetryPolicy,
  failures: number,
  retryAfterMs: number | undefined,
): number => {
  const backoff = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (failures - 1)) * policy.random()
  return Math.min(policy.maxDelayMs, Math.max(backoff, retryAfterMs ?? 0))
}

export const withRetries = async <T>(
  policy: RetryPolicy,
  signal: AbortSignal | undefined,
  work: (attempt: number) => Promise<T>,
): Promise<T> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work(attempt)
    } catch (error) {
      if (signal?.aborted) throw aborted(signal)
      if (!(error instanceof TransientFailure)) throw error
      if (attempt >= policy.attempts) throw unavailable(error)
      await pause(retryDelay(policy, attempt, error.retryAfterMs), signal)
    }
  }
}

export const unavailable = (failure: TransientFailure): OciError =>
  new OciError('UNAVAILABLE', `${failure.message}; tried several times, try again later`, {
    cause: failure.cause ?? failure,
  })

export const pause = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal })
  } catch (cause) {
    throw signal?.aborted ? aborted(signal) : cause
  }
}

export const aborted = (signal: AbortSignal): OciError =>
  new OciError('ABORTED', 'The transfer was canceled', { cause: signal.reason })

/** Seconds or an HTTP date, as RFC 9110 has it. */
export const parseRetryAfter = (value: string | undefined, now: number): number | undefined => {
  if (value === undefined) return undefined
  if (/^\d{1,6}$/.test(value)) return Number(value) * 1000
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}
