import type { Readable, Writable } from 'node:stream'

/** Everything the commands touch of the outside. `main.ts` gives the real ones, tests their own. */
export interface Io {
  stdin: Input
  stdout: Terminal
  stderr: Terminal
  env: Readonly<Record<string, string | undefined>>
  cwd: string
  fetch: typeof fetch
  clock: Clock
  host: Host
  /** Calls back at each such signal until the returned function is called. */
  onSignal(name: SignalName, handler: () => void): () => void
}

export type SignalName = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

export type Input = Readable & { isTTY?: boolean; setRawMode?: (mode: boolean) => unknown }

export type Terminal = Writable & { isTTY?: boolean; columns?: number; rows?: number }

export interface Clock {
  now(): number
  /** Ends early, without an error, when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** The machine and the installation that this program runs on. */
interface Host {
  node: string
  nodeVersion: string
  platform: string
  home: string
  /** The folder of the bundles that `tenon server` and `tenon agent` start. */
  dist: string
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const end = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      signal?.addEventListener('abort', end, { once: true })
    }),
}
