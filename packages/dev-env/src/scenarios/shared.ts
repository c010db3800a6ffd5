import type { Stage } from '../stage.ts'

/** What a fake job with `lines` prints. */
export const numbered = (count: number): string =>
  Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('')

/** Jobs are soon `lost` with these; elsewhere leases are long, so that a slow machine loses none. */
export const SHORT_LEASE = { TENON_LEASE_SECONDS: '2' }

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(message)
}

/** The agent works on one job at a time but says that it takes two: the second waits on its side. */
export function promiseTwoSlots(stage: Stage): void {
  stage
    .wire()
    .on('toServer', 'hello', (frame) => ({ instead: JSON.stringify({ ...frame.content, slots: 2 }) }))
}
