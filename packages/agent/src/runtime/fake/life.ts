import { z } from 'zod'
import type { JobExit } from '../runtime.ts'

/** What a fake job does. Times are milliseconds since its start. */
export const fakeBehaviourSchema = z.strictObject({
  /** Printed at once. */
  text: z.string().default(''),
  /** `line 1` to `line n`, `intervalMs` apart. */
  lines: z.number().int().nonnegative().default(0),
  intervalMs: z.number().nonnegative().default(0),
  /** Filler printed at once, in lines of 100 bytes. */
  bytes: z.number().int().nonnegative().default(0),
  /** Defaults to the time that its lines take. */
  durationMs: z.number().nonnegative().optional(),
  /** Runs until `release` is called, or until the file at this path exists. */
  untilReleased: z.union([z.boolean(), z.string()]).default(false),
  exitCode: z.number().int().min(0).max(255).default(0),
  reason: z.enum(['oom', 'signal']).optional(),
  /** The start throws `RuntimeError` with this reason. */
  startFailure: z.enum(['start', 'image']).optional(),
  startDelayMs: z.number().nonnegative().default(0),
  ignoresStop: z.boolean().default(false),
  /** Printed when it is asked to stop. */
  stopText: z.string().default(''),
  /** Ends without a trace at this time. */
  vanishesAfterMs: z.number().nonnegative().optional(),
})

export type FakeBehaviour = z.infer<typeof fakeBehaviourSchema>
export type FakeBehaviourInput = z.input<typeof fakeBehaviourSchema>

export const fakeStateSchema = z.object({
  jobId: z.string(),
  fence: z.number(),
  behaviour: fakeBehaviourSchema,
  startedAt: z.number(),
  timeoutMs: z.number(),
  graceMs: z.number(),
  stop: z.object({ at: z.number(), graceMs: z.number(), reason: z.enum(['canceled', 'timeout']) }).optional(),
  releasedAt: z.number().optional(),
  killedAt: z.number().optional(),
})

/** All that is remembered of a fake job; its log and its end follow from this and the time. */
export type FakeState = z.infer<typeof fakeStateSchema>

export interface FakeEnd {
  at: number
  exit: JobExit
}

/** The first of everything that can end this job, as far as it is known by now; it may lie ahead. */
export function fakeEnd(state: FakeState): FakeEnd | undefined {
  const candidates = [naturalEnd(state), vanishing(state), killing(state), ...stops(state)]
  return candidates
    .filter((end) => end !== undefined)
    .reduce<FakeEnd | undefined>((first, end) => (first && first.at <= end.at ? first : end), undefined)
}

/** What the job has printed by `now`. */
export function fakeLog(state: FakeState, now: number): Uint8Array {
  const { behaviour, startedAt, stop } = state
  const end = fakeEnd(state)
  const until = Math.min(now, end?.at ?? Infinity)
  const stopAt = stop === undefined || until < stop.at ? Infinity : stop.at
  const before = linesBy(behaviour, Math.min(until, stopAt) - startedAt)
  const lines = Array.from(
    { length: linesBy(behaviour, until - startedAt) },
    (_, index) => `line ${index + 1}\n`,
  )
  if (stopAt !== Infinity) lines.splice(before, 0, behaviour.stopText)
  return Buffer.from(behaviour.text + filler(behaviour.bytes) + lines.join(''))
}

function linesBy({ lines, intervalMs }: FakeBehaviour, elapsed: number): number {
  return intervalMs === 0 ? lines : Math.min(lines, Math.floor(elapsed / intervalMs))
}

/** When something about this job changes next by itself, after `now`. */
export function nextChange(state: FakeState, now: number): number {
  const { behaviour, startedAt } = state
  const end = fakeEnd(state)?.at ?? Infinity
  if (behaviour.intervalMs === 0) return end
  const printed = Math.floor((now - startedAt) / behaviour.intervalMs)
  const nextLine = printed < behaviour.lines ? startedAt + (printed + 1) * behaviour.intervalMs : Infinity
  return Math.min(end, nextLine)
}

function naturalEnd(state: FakeState): FakeEnd | undefined {
  const { behaviour, startedAt, releasedAt } = state
  const own = startedAt + (behaviour.durationMs ?? behaviour.lines * behaviour.intervalMs)
  const at = behaviour.untilReleased === false ? own : releasedAt
  if (at === undefined) return undefined
  if (behaviour.reason === 'oom') return endAt(at, 'oom', 137, 'The fake job ran out of memory.')
  if (behaviour.reason === 'signal') return endAt(at, 'signal', 137, 'The fake job was killed.')
  if (behaviour.exitCode === 0) return endAt(at, 'completed', 0, 'The fake job ended well.')
  return endAt(at, 'exit', behaviour.exitCode, `The fake job ended with exit code ${behaviour.exitCode}.`)
}

function vanishing({ behaviour, startedAt }: FakeState): FakeEnd | undefined {
  if (behaviour.vanishesAfterMs === undefined) return undefined
  return endAt(startedAt + behaviour.vanishesAfterMs, 'gone', null, 'The fake job vanished.')
}

function killing({ killedAt }: FakeState): FakeEnd | undefined {
  return killedAt === undefined ? undefined : endAt(killedAt, 'signal', 137, 'The fake job was killed.')
}

function stops(state: FakeState): FakeEnd[] {
  const { behaviour, startedAt, timeoutMs, graceMs, stop } = state
  const code = behaviour.ignoresStop ? 137 : 0
  const after = (at: number, grace: number) => at + (behaviour.ignoresStop ? grace : 0)
  const limit = endAt(after(startedAt + timeoutMs, graceMs), 'timeout', code, 'The fake job ran too long.')
  if (stop === undefined) return [limit]
  return [limit, endAt(after(stop.at, stop.graceMs), stop.reason, code, 'The fake job was stopped.')]
}

function endAt(at: number, reason: JobExit['reason'], exitCode: number | null, message: string): FakeEnd {
  return { at, exit: { reason, exitCode, message } }
}

function filler(bytes: number): string {
  const line = `${'x'.repeat(99)}\n`
  return line.repeat(Math.ceil(bytes / line.length)).slice(0, bytes)
}
