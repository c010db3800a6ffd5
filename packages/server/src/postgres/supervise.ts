import type { Cluster } from './cluster.ts'
import { PostgresError } from './errors.ts'
import { type Postmaster, type PostmasterExit, stopProcess } from './postmaster.ts'
import { isAlive } from './process-table.ts'

export type EmbeddedPostgres = {
  url: string
  /** True when the PostgreSQL of an earlier supervisor goes on. */
  adopted: boolean
  pid(): number
  /** Fast shutdown; ends supervision. A second call is the same stop. */
  stop(): Promise<void>
  /** Stops and starts on the same port: for tests that restart under load. */
  restart(): Promise<void>
  /** Called when PostgreSQL ends unasked; it is then started again. Returns how to stop listening. */
  onExit(listener: (exit: PostmasterExit) => void): () => void
}

type Supervision = {
  cluster: Cluster
  first: Postmaster
  url: string
  lock: { release(): void }
  bringUp(): Promise<Postmaster>
}

const stableAfterMs = 60_000

export function backoffMs(attempt: number): number {
  return Math.min(10_000, 100 * 2 ** (attempt - 1))
}

export function supervise(supervision: Supervision): EmbeddedPostgres {
  const { first, url } = supervision
  const supervisor = new Supervisor(supervision)
  return {
    url,
    adopted: first.adopted,
    pid: () => supervisor.pid(),
    stop: async () => supervisor.stop(),
    restart: async () => supervisor.restart(),
    onExit: (listener) => supervisor.onExit(listener),
  }
}

class Supervisor {
  readonly #supervision: Supervision
  readonly #listeners = new Set<(exit: PostmasterExit) => void>()
  readonly #stopping = new AbortController()
  #current: Postmaster
  /** Set while the current PostgreSQL ends because we want it to. */
  #asked = false
  #attempts = 0
  #startedAt = 0
  #stopped: Promise<void> | undefined
  #queue: Promise<unknown> = Promise.resolve()

  constructor(supervision: Supervision) {
    this.#supervision = supervision
    this.#current = supervision.first
    this.#takeOn(supervision.first)
  }

  pid(): number {
    return this.#current.identity.pid
  }

  onExit(listener: (exit: PostmasterExit) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#stopped ??= this.#inTurn(async () => this.#stopCurrent()).finally(() =>
      this.#supervision.lock.release(),
    )
    return this.#stopped
  }

  async restart(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#stopping.signal.aborted) {
        throw new PostgresError('postgres_start_failed', 'PostgreSQL was stopped for good; start it anew')
      }
      await this.#stopCurrent()
      try {
        this.#takeOn(await this.#supervision.bringUp())
      } catch (error) {
        void this.#recover()
        throw error
      }
    })
  }

  #takeOn(postmaster: Postmaster): void {
    this.#current = postmaster
    this.#asked = false
    this.#startedAt = this.#supervision.cluster.clock.now()
    void this.#watch(postmaster)
  }

  async #watch(postmaster: Postmaster): Promise<void> {
    const { clock, log } = this.#supervision.cluster
    const exit = await postmaster.exited
    if (this.#asked || this.#current !== postmaster) return
    log.warn({ pid: postmaster.identity.pid, ...exit }, 'postgres ended unasked; it is started again')
    if (clock.now() - this.#startedAt > stableAfterMs) this.#attempts = 0
    void this.#recover()
    for (const listener of this.#listeners) listener(exit)
  }

  async #recover(): Promise<void> {
    const { clock, log } = this.#supervision.cluster
    const { signal } = this.#stopping
    while (!signal.aborted) {
      this.#attempts += 1
      await clock.sleep(backoffMs(this.#attempts), signal)
      try {
        await this.#inTurn(async () => {
          if (signal.aborted || isAlive(this.#current.identity)) return
          this.#takeOn(await this.#supervision.bringUp())
          log.info({ pid: this.pid() }, 'postgres is up again')
        })
        return
      } catch (error) {
        log.warn({ error, attempts: this.#attempts }, 'postgres did not start again; it is tried later')
      }
    }
  }

  async #stopCurrent(): Promise<void> {
    this.#asked = true
    await stopProcess(this.#supervision.cluster, this.#current.identity)
  }

  /** Stop, restart and recovery never overlap. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work)
    this.#queue = turn.catch(() => {})
    return turn
  }
}
