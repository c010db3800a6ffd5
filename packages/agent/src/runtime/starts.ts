import type { JobHandle } from './runtime.ts'

/** The starts under way in this runtime: one per job, however often it is asked for. */
export interface Starts {
  run(jobId: string, start: () => Promise<JobHandle>): Promise<JobHandle>
  has(jobId: string): boolean
  /** Resolves when no start of this job is under way, whatever came of it. */
  settled(jobId: string): Promise<void>
}

export function createStarts(): Starts {
  const underWay = new Map<string, Promise<JobHandle>>()
  return {
    run(jobId, start) {
      const current = underWay.get(jobId)
      if (current !== undefined) return current
      const started = start().finally(() => underWay.delete(jobId))
      underWay.set(jobId, started)
      return started
    },
    has: (jobId) => underWay.has(jobId),
    async settled(jobId) {
      await underWay.get(jobId)?.catch(() => undefined)
    },
  }
}
