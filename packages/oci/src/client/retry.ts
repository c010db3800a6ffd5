import { setTimeout as sleep } from 'node:timers/promises'
import { OciError } from '../errors.ts'

export interface RetryPolicy {
  attempts: number
  baseDelayMs: number
  maxDelayMs: number
  /** A registry that asks for a longer pause than this is not waited for, and not asked again before it. */
  maxRetryAfterMs: number
  random: () => number
}

export const defaultRetry: RetryPolicy = {
  attempts: 4,
  baseDelayMs: 200,
  maxDelayMs: 10_000,
  maxRetryAfterMs: 120_000,
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

/** Full jitter, doubled each time; never earlier than the registry wishes. `undefined`: give up. */
export const retryDelay = (
  policy: RetryPolicy,
  failures: number,
  retryAfterMs: number | undefined,
): number | undefined => {
  if (failures >= policy.attempts || (retryAfterMs ?? 0) > policy.maxRetryAfterMs) return undefined
  const backoff = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (failures - 1)) * policy.random()
  return Math.max(backoff, retryAfterMs ?? 0)
}

/** Waits before the next try, or throws what the last failure comes to. */
export const waitOrGiveUp = async (
  policy: RetryPolicy,
  failures: number,
  failure: TransientFailure,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const delay = retryDelay(policy, failures, failure.retryAfterMs)
  if (delay === undefined) throw unavailable(failure)
  await pause(delay, signal)
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
      await waitOrGiveUp(policy, attempt, error, signal)
    }
  }
}

export const unavailable = (failure: TransientFailure): OciError =>
  new OciError('UNAVAILABLE', `${failure.message}; try again later`, {
    cause: failure.cause ?? failure,
  })

const pause = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
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
