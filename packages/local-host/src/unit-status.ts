import type { UnitState, UnitStatus } from '@tenon/protocol/local-host'

/** All that is known of a unit's process; changed only through `after`. */
export interface Vitals {
  state: UnitState
  since: number
  version: string | null
  pid: number | null
  restarts: number
  /** Ends in a row without a stretch of good health between them. */
  crashes: number
  failedProbes: number
  lastExit: { code: number | null; signal: string | null; error: string | null; at: number } | null
  lastHealthError: string | null
}

export type VitalsEvent =
  | { kind: 'wanted' }
  | { kind: 'launched'; pid: number; version: string }
  | { kind: 'adopted'; pid: number; version: string }
  | { kind: 'probe_passed' }
  | { kind: 'probe_failed'; error: string }
  | { kind: 'exited'; code: number | null; signal: string | null; error: string | null; again: boolean }
  | { kind: 'stopped' }

export const FAILED_PROBES_TO_UNHEALTHY = 3
export const STABLE_AFTER_MS = 30_000
const BACKOFF_FIRST_MS = 500
const BACKOFF_LONGEST_MS = 60_000

export function unborn(now: number): Vitals {
  return {
    state: 'stopped',
    since: now,
    version: null,
    pid: null,
    restarts: 0,
    crashes: 0,
    failedProbes: 0,
    lastExit: null,
    lastHealthError: null,
  }
}

export function after(vitals: Vitals, event: VitalsEvent, now: number): Vitals {
  switch (event.kind) {
    case 'wanted':
      return { ...unborn(vitals.since), state: vitals.state, pid: vitals.pid, version: vitals.version }
    case 'launched': {
      const restarts = vitals.crashes > 0 ? vitals.restarts + 1 : vitals.restarts
      return enter({ ...vitals, restarts, failedProbes: 0, ...pick(event) }, 'starting', now)
    }
    case 'adopted':
      return enter({ ...vitals, failedProbes: 0, ...pick(event) }, 'starting', now)
    case 'probe_passed':
      return enter({ ...vitals, failedProbes: 0, lastHealthError: null }, 'healthy', now)
    case 'probe_failed': {
      const failed = { ...vitals, failedProbes: vitals.failedProbes + 1, lastHealthError: event.error }
      const lostHealth = vitals.state === 'healthy' && failed.failedProbes >= FAILED_PROBES_TO_UNHEALTHY
      return lostHealth ? enter(failed, 'unhealthy', now) : failed
    }
    case 'exited': {
      const { code, signal, error } = event
      const wasStable = vitals.state === 'healthy' && now - vitals.since >= STABLE_AFTER_MS
      const crashes = wasStable ? 1 : vitals.crashes + 1
      const ended = { ...vitals, pid: null, crashes, lastExit: { code, signal, error, at: now } }
      return enter(ended, event.again ? 'backoff' : 'stopped', now)
    }
    case 'stopped':
      return enter({ ...vitals, pid: null }, 'stopped', now)
  }
}

/** Doubles per crash up to a minute; half of it is chance, so that units of one crash do not return as one. */
export function backoffMs(crashes: number, random: () => number): number {
  const full = Math.min(BACKOFF_LONGEST_MS, BACKOFF_FIRST_MS * 2 ** Math.max(0, crashes - 1))
  return full / 2 + (full / 2) * random()
}

export function describeExit(vitals: Vitals): string {
  const exit = vitals.lastExit
  if (!exit) return 'The process has not started.'
  if (exit.error) return `The process could not be started: ${exit.error}`
  if (exit.signal) return `The process was ended by ${exit.signal}.`
  if (exit.code === null) return 'The process ended; its exit code is unknown.'
  return `The process ended with exit code ${exit.code}.`
}

export function toStatus(name: string, vitals: Vitals): UnitStatus {
  const { state, version, pid, restarts, lastExit, lastHealthError } = vitals
  return {
    name,
    state,
    since: new Date(vitals.since).toISOString(),
    version,
    pid,
    restarts,
    lastExit: lastExit && { ...lastExit, at: new Date(lastExit.at).toISOString() },
    lastHealthError,
  }
}

function enter(vitals: Vitals, state: UnitState, now: number): Vitals {
  return vitals.state === state ? vitals : { ...vitals, state, since: now }
}

function pick({ pid, version }: { pid: number; version: string }): { pid: number; version: string } {
  return { pid, version }
}
