import type { Logger } from 'pino'
import { pause } from '../../ground/pause.ts'
import type { KubeApi, Pod, PodChange } from './kube-api.ts'
import { isKube } from './kube-error.ts'

const FIRST_PAUSE_MILLISECONDS = 200
const LONGEST_PAUSE_MILLISECONDS = 10_000

/** The pods of this agent's jobs as the cluster sees them. One list and one watch, while anybody looks. */
export interface PodWatch {
  /**
   * Calls `look` with all pods of the Job at once and at each change of any, until `close`. An API server that is away
   * says nothing: the last word stands until it is back.
   */
  follow(job: string, look: (pods: Pod[]) => void): { close(): void }
}

export function createPodWatch(api: KubeApi, selector: string, log: Logger): PodWatch {
  const followers = new Set<{ job: string; look: (pods: Pod[]) => void }>()
  let pods: Map<string, Pod> | undefined
  let running: AbortController | undefined

  const podsOf = (job: string) =>
    [...(pods?.values() ?? [])].filter(({ metadata }) => metadata.labels['job-name'] === job)
  const tell = (job?: string) => {
    for (const follower of followers) {
      if (job === undefined || follower.job === job) follower.look(podsOf(follower.job))
    }
  }

  const seen: Seen = {
    all(listed) {
      pods = new Map(listed.map((pod) => [pod.metadata.uid, pod]))
      tell()
    },
    one(type, pod) {
      const { uid, labels } = pod.metadata
      if (type === 'DELETED') pods?.delete(uid)
      else pods?.set(uid, pod)
      tell(labels['job-name'])
    },
  }

  return {
    follow(job, look) {
      const follower = { job, look }
      followers.add(follower)
      if (running === undefined) {
        running = new AbortController()
        pods = undefined
        void watch(api, selector, seen, log, running.signal)
      } else if (pods !== undefined) queueMicrotask(() => followers.has(follower) && look(podsOf(job)))
      return {
        close() {
          followers.delete(follower)
          if (followers.size > 0) return
          running?.abort()
          running = undefined
        },
      }
    },
  }
}

async function watch(
  api: KubeApi,
  selector: string,
  seen: Seen,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 0; !signal.aborted;) {
    try {
      const listed = await api.listPods(selector)
      if (signal.aborted) return
      seen.all(listed.pods)
      let version: string | undefined = listed.version
      while (version !== undefined && !signal.aborted) {
        const before: string = version
        version = await through(api.watchPods(selector, before, signal), before, seen, signal)
        attempt = version === before ? attempt + 1 : 0
        if (version === before) await pause(delay(attempt), signal)
      }
    } catch (error) {
      if (signal.aborted) return
      if (attempt === 1) log.warn({ err: error }, 'the pods of jobs cannot be watched; it is tried again')
      attempt += 1
      await pause(delay(attempt), signal)
    }
  }
}

/** One watch to its end. Undefined when the server forgot the version: everything is listed anew. */
async function through(
  changes: AsyncIterable<PodChange>,
  version: string,
  seen: Seen,
  signal: AbortSignal,
): Promise<string | undefined> {
  let last = version
  try {
    for await (const change of changes) {
      if (signal.aborted) return undefined
      if (change.type === 'ERROR') return undefined
      last = change.version ?? last
      if ('pod' in change) seen.one(change.type, change.pod)
    }
    return last
  } catch (error) {
    if (isKube(error, 'expired')) return undefined
    if (isKube(error, 'unreachable') && last !== version) return last
    throw error
  }
}

function delay(attempt: number): number {
  return Math.min(FIRST_PAUSE_MILLISECONDS * 2 ** attempt, LONGEST_PAUSE_MILLISECONDS)
}

interface Seen {
  all(pods: Pod[]): void
  one(type: PodChange['type'], pod: Pod): void
}
