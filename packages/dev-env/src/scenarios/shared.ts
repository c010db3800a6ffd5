import type { AgentSettings } from '../stage.ts'

/** What a fake job with `lines` prints. */
export const numbered = (count: number): string =>
  Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('')

/** Jobs are soon `lost` with these; elsewhere leases are long, so that a slow machine loses none. */
export const SHORT_LEASE = { TENON_LEASE_SECONDS: '2' }

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(message)
}

/** Two slots, and memory for one job: the second waits on the agent's side. */
export const roomForOne: AgentSettings = { slots: 2, env: { TENON_JOBS_MEMORY_BYTES: '800000000' } }
