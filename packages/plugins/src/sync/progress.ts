import type { CopyProgress } from '@tenon/oci'
import type { JobApi } from '../sdk/job-api.ts'

const MIN_PAUSE_MS = 250

export interface ProgressTeller {
  tell(index: number, progress: CopyProgress): void
  /** Resolves when the last word is out. */
  finish(): Promise<void>
}

/** Tells how far a sync is: not more often than people can read, one call at a time, and never backwards. */
export function createProgressTeller(
  api: Pick<JobApi, 'progress'>,
  artifacts: number,
  now: () => number,
): ProgressTeller {
  let furthest = 0
  let doneBefore = 0
  let current = { index: 0, done: 0 }
  let toldAt = Number.NEGATIVE_INFINITY
  let telling: Promise<void> | undefined

  const say = (message: string, fraction: number) => {
    toldAt = now()
    telling = api.progress(message, fraction).finally(() => (telling = undefined))
  }

  return {
    tell: (index, progress) => {
      if (index !== current.index) {
        doneBefore += current.done
        current = { index, done: 0 }
      }
      current.done = Math.max(current.done, progress.doneBytes)
      furthest = Math.max(furthest, overall(index, artifacts, progress))
      if (telling !== undefined || now() - toldAt < MIN_PAUSE_MS) return
      say(describe(index, artifacts, progress), furthest)
    },
    finish: async () => {
      await telling
      const count = artifacts === 1 ? '1 artifact' : `${artifacts} artifacts`
      say(`${count}, ${readable(doneBefore + current.done)} in place`, 1)
      await telling
    },
  }
}

/** Pure: how far, how fast, how long still. */
export function describe(index: number, artifacts: number, progress: CopyProgress): string {
  const { doneBytes, totalBytes, bytesPerSecond, secondsLeft } = progress
  const rate = bytesPerSecond > 0 ? `, ${readable(bytesPerSecond)}/s` : ''
  const left = secondsLeft === undefined ? '' : `, about ${Math.ceil(secondsLeft)} s left`
  return `artifact ${index + 1} of ${artifacts}: ${readable(doneBytes)} of ${readable(totalBytes)}${rate}${left}`
}

function readable(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const value = bytes / 1000 ** power
  return `${power === 0 ? Math.round(value) : value.toFixed(1)} ${units[power]}`
}

/** Pure: each artifact counts the same, since the size of the later ones is not known yet. */
export function overall(index: number, artifacts: number, progress: CopyProgress): number {
  const part = progress.totalBytes === 0 ? 0 : progress.doneBytes / progress.totalBytes
  return Math.min(1, (index + Math.min(1, part)) / Math.max(1, artifacts))
}
