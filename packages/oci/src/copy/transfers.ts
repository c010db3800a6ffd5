import { OciError } from '../errors.ts'
import type { Digest } from '../reference.ts'

/** Blobs on their way, so that copies at the same time send each only once to a registry. */
export interface Transfers {
  /**
   * Runs `work` unless the same blob is on its way to that registry already; then it waits for that and
   * looks again. `work` gets the repository that just received it, if any, to mount from.
   */
  share<T>(wanted: Wanted, work: (held?: string) => Promise<T>): Promise<T>
}

export interface Wanted {
  origin: string
  repository: string
  digest: Digest
  signal: AbortSignal
}

export const createTransfers = (): Transfers => {
  const running = new Map<string, { repository: string; isDone: Promise<boolean> }>()
  return {
    share: async ({ origin, repository, digest, signal }, work) => {
      const key = `${origin} ${digest}`
      let held: string | undefined
      for (let other = running.get(key); other !== undefined; other = running.get(key)) {
        if (await unlessAborted(other.isDone, signal)) held = other.repository
      }
      const result = work(held)
      const isDone = result.then(
        () => true,
        () => false,
      )
      const entry = { repository, isDone }
      running.set(key, entry)
      try {
        return await result
      } finally {
        running.delete(key)
      }
    },
  }
}

const unlessAborted = async <T>(promise: Promise<T>, signal: AbortSignal): Promise<T> => {
  let stop = (): void => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(new OciError('ABORTED', 'The transfer was canceled', { cause: signal.reason }))
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** All copies of a process know of each other unless they are given their own. */
export const sharedTransfers = createTransfers()
