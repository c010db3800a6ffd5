import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { fakeStateSchema } from './life.ts'
import type { FakeState } from './life.ts'

/** Where fake jobs are remembered. Synchronous, so that a change of one job cannot be torn apart by another. */
export interface FakeStore {
  get(jobId: string): FakeState | undefined
  put(state: FakeState): void
  delete(jobId: string): void
  ids(): string[]
  /** Whether others may change it, so that a waiter must look again. */
  isShared: boolean
}

/** Pass the same one to the next runtime to play a restarted agent without a disk. */
export function createFakeMemory(): FakeStore {
  const states = new Map<string, FakeState>()
  return {
    get: (jobId) => states.get(jobId),
    put: (state) => void states.set(state.jobId, state),
    delete: (jobId) => void states.delete(jobId),
    ids: () => [...states.keys()],
    isShared: false,
  }
}

/** Every start, one line each; it stays when the job is removed, so that a second start of one job shows. */
export const FAKE_STARTS = 'starts.log'

export function createFakeFolder(dir: string): FakeStore {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const file = (jobId: string) => path.join(dir, `${encodeURIComponent(jobId)}.json`)
  return {
    get(jobId) {
      try {
        return fakeStateSchema.parse(JSON.parse(readFileSync(file(jobId), 'utf8')))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw error
      }
    },
    put(state) {
      if (!existsSync(file(state.jobId))) {
        const { jobId, fence, startedAt } = state
        appendFileSync(path.join(dir, FAKE_STARTS), `${JSON.stringify({ jobId, fence, startedAt })}\n`)
      }
      writeFileSync(`${file(state.jobId)}.new`, JSON.stringify(state), { mode: 0o600 })
      renameSync(`${file(state.jobId)}.new`, file(state.jobId))
    },
    delete: (jobId) => rmSync(file(jobId), { force: true }),
    ids: () =>
      readdirSync(dir)
        .filter((name) => name.endsWith('.json'))
        .map((name) => decodeURIComponent(name.slice(0, -'.json'.length))),
    isShared: true,
  }
}

/** When the file appeared that releases a job, if it did. */
export function fileTime(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs
}
