import { watch } from 'node:fs'
import type { FSWatcher } from 'node:fs'

/** Wakes a waiter when a path changes. Watching is a hint and may fail; the slow poll is the truth. */
export interface Changes {
  /** Resolves at the next change since the last call, at the poll, or on abort. */
  next(): Promise<void>
  wake(): void
  close(): void
}

export function watchChanges(paths: string[], pollMilliseconds: number, signal: AbortSignal): Changes {
  let changed = false
  let resume: (() => void) | undefined
  const wake = () => {
    changed = true
    resume?.()
  }
  const watchers: FSWatcher[] = []
  for (const path of paths) {
    try {
      watchers.push(watch(path, wake).on('error', () => undefined))
    } catch {
      // Out of watches, or the path is gone: the poll goes on.
    }
  }
  const poll = watchers.length === paths.length ? pollMilliseconds : Math.min(pollMilliseconds, 100)
  signal.addEventListener('abort', wake)
  return {
    wake,
    async next() {
      if (!changed && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, poll)
          resume = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      resume = undefined
      changed = false
    },
    close() {
      for (const watcher of watchers) watcher.close()
      signal.removeEventListener('abort', wake)
    },
  }
}
