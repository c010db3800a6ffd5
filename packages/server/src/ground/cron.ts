import { Cron } from 'croner'

/** The next time of a cron expression in UTC after `nowMs`, or null when there is none or it cannot be read. */
export function nextTime(schedule: string, nowMs: number): string | null {
  try {
    return new Cron(schedule, { timezone: 'UTC' }).nextRun(new Date(nowMs))?.toISOString() ?? null
  } catch {
    return null
  }
}
