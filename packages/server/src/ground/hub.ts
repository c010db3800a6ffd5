import type pg from 'pg'
import type { Logger } from 'pino'

/**
 * Hints that something changed: at once inside this process, and by NOTIFY to the others. A hint may be lost or doubled;
 * a slow poll is the truth. NOTIFY goes out after the commit, coalesced, since inside a transaction it would make
 * Postgres commit one at a time.
 */
export interface Hub {
  nudge(topics: Iterable<string>): void
  on(topic: string, listener: () => void): () => void
  start(): void
  close(): Promise<void>
}

const CHANNEL = 'tenon_hint'
/** Between two sendings: the first hint after a quiet time goes at once, what a busy server has to say goes together. */
const FLUSH_MS = 20
/** Nothing of a hint needs to survive, so that its commit waits for no disk. */
const NOTIFY = `select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`
const MAX_PAYLOAD = 7_000

export function createHub(pool: pg.Pool, listenUrl: () => pg.Client, processId: string, log: Logger): Hub {
  const listeners = new Map<string, Set<() => void>>()
  const outgoing = new Set<string>()
  let flushTimer: NodeJS.Timeout | undefined
  let flushedAt = -FLUSH_MS
  let closed = false

  function emit(topic: string): void {
    for (const listener of listeners.get(topic) ?? []) listener()
  }

  async function flush(): Promise<void> {
    flushTimer = undefined
    flushedAt = performance.now()
    const topics = [...outgoing]
    outgoing.clear()
    for (const payload of packTopics(processId, topics)) {
      await pool.query(NOTIFY, [CHANNEL, payload]).catch((error: unknown) => {
        log.debug({ err: error }, 'a hint to the other server processes was lost; they poll')
      })
    }
  }

  function receive(payload: string | undefined): void {
    const [from, ...topics] = (payload ?? '').split('\n')
    if (from !== processId) for (const topic of topics) emit(topic)
  }

  const ear = createEar(listenUrl, receive, log)
  return {
    nudge(topics) {
      for (const topic of topics) {
        outgoing.add(topic)
        queueMicrotask(() => emit(topic))
      }
      if (outgoing.size === 0 || closed) return
      flushTimer ??= setTimeout(() => void flush(), Math.max(0, flushedAt + FLUSH_MS - performance.now()))
    },
    on(topic, listener) {
      const set = listeners.get(topic) ?? new Set()
      listeners.set(topic, set.add(listener))
      return () => {
        set.delete(listener)
        if (set.size === 0) listeners.delete(topic)
      }
    },
    start: () => ear.open(),
    async close() {
      closed = true
      clearTimeout(flushTimer)
      await ear.close()
    },
  }
}

/** Listens to the other processes over a connection of its own, and again when that breaks. */
function createEar(
  connect: () => pg.Client,
  receive: (payload: string | undefined) => void,
  log: Logger,
): { open(): void; close(): Promise<void> } {
  let client: pg.Client | undefined
  let closed = false
  async function listen(): Promise<void> {
    if (closed) return
    const next = connect()
    client = next
    next.on('error', () => void next.end().catch(() => undefined))
    next.on('end', () => {
      if (!closed) setTimeout(() => void listen(), 1_000).unref()
    })
    next.on('notification', (message) => receive(message.payload))
    try {
      await next.connect()
      await next.query(`listen ${CHANNEL}`)
    } catch (error) {
      log.debug({ err: error }, 'not listening for hints now; trying again')
      await next.end().catch(() => undefined)
    }
  }
  return {
    open: () => void listen(),
    async close() {
      closed = true
      await client?.end().catch(() => undefined)
    },
  }
}

function packTopics(processId: string, topics: string[]): string[] {
  const payloads: string[] = []
  let current = processId
  for (const topic of topics) {
    if (current.length + topic.length + 1 > MAX_PAYLOAD) {
      payloads.push(current)
      current = processId
    }
    current += `\n${topic}`
  }
  if (current !== processId) payloads.push(current)
  return payloads
}
