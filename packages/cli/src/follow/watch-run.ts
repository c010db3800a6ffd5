import { runView, type Client, type RunView } from '@tenon/protocol'
import type { Clock } from '../io.ts'
import { readEvents } from './events.ts'
import { untilQuiet } from './quiet.ts'
import { createReconnect } from './reconnect.ts'

/** The server says something at least every few seconds. */
const QUIET_MS = 30_000

export interface Watch {
  client: Client
  clock: Clock
  signal: AbortSignal
  onRun(run: RunView): void
  onAway(): void
}

/** Follows a run to its end, through as many connections as it takes. Undefined when `signal` ended it. */
export async function watchRun(runId: string, watch: Watch): Promise<RunView | undefined> {
  const { client, clock, signal } = watch
  const reconnect = createReconnect(clock, signal, watch.onAway)
  while (!signal.aborted) {
    const attempt = new AbortController()
    const both = AbortSignal.any([signal, attempt.signal])
    let failure: unknown
    try {
      const response = await client.call('runs.watch', { params: { id: runId } }, { signal: both })
      if (!response.body) return (await client.call('runs.get', { params: { id: runId } })) as RunView
      for await (const data of readEvents(untilQuiet(response.body, QUIET_MS, attempt))) {
        const run = runView.parse(JSON.parse(data))
        reconnect.alive()
        watch.onRun(run)
        if (hasEnded(run)) return run
      }
    } catch (error) {
      if (signal.aborted) return undefined
      failure = attempt.signal.aborted ? undefined : error
    } finally {
      attempt.abort()
    }
    await reconnect.pause(failure)
  }
  return undefined
}

export function hasEnded(run: { status: RunView['status'] }): boolean {
  return run.status === 'succeeded' || run.status === 'failed' || run.status === 'canceled'
}
