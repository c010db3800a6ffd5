import { ContractServer } from '../packages/agent/src/testing/contract-server.ts'
import { startProgram, type Program } from '../packages/dev-env/src/program.ts'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { residentBytes } from './memory.ts'

/** The agent's program as it ships, beside the other side of its contract: what it costs without a server's own work. */
export class RuntimeAgent {
  readonly #dir: string
  readonly #server: ContractServer
  readonly #agent: Program
  readonly #waiting = new Map<string, () => void>()
  readonly #failures: string[] = []

  static async start(options: {
    dir: string
    bundle: string
    programs: string
    slots: number
    env: Record<string, string>
  }): Promise<RuntimeAgent> {
    const server = await ContractServer.start()
    mkdirSync(options.dir, { recursive: true, mode: 0o700 })
    const tokenFile = join(options.dir, 'join-token')
    writeFileSync(tokenFile, server.joinToken, { mode: 0o600 })
    const agent = startProgram({
      name: 'agent',
      bundle: options.bundle,
      logFile: join(options.dir, 'agent.log'),
      env: {
        PATH: process.env['PATH'] ?? '',
        TENON_SERVER_URL: server.url,
        TENON_AGENT_DIR: options.dir,
        TENON_JOIN_TOKEN_FILE: tokenFile,
        TENON_PROGRAMS_DIR: options.programs,
        TENON_SLOTS: String(options.slots),
        TENON_JOBS_MEMORY_BYTES: String(1e12),
        TENON_JOBS_CPUS: '1000',
        TENON_LOG_LEVEL: 'warn',
        ...options.env,
      },
    })
    const running = new RuntimeAgent(options.dir, server, agent)
    await running.#until('the agent to connect', () => server.sessions > 0)
    return running
  }

  private constructor(dir: string, server: ContractServer, agent: Program) {
    this.#dir = dir
    this.#server = server
    this.#agent = agent
    server.onFrame = (frame) => {
      if (frame.type !== 'job.finished') return false
      const { jobId, outcome, message } = frame.report
      if (outcome !== 'succeeded') this.#failures.push(`${jobId} ${outcome}: ${message}`)
      this.#waiting.get(jobId)?.()
      this.#waiting.delete(jobId)
      return false
    }
  }

  get residentBytes(): number {
    return residentBytes(this.#agent.pid)
  }

  /** From the assignment to the report, which follows the log. */
  async run(): Promise<void> {
    const manifest = this.#server.manifest()
    const reported = new Promise<void>((resolve) => this.#waiting.set(manifest.jobId, resolve))
    this.#server.assign(manifest)
    await Promise.race([
      reported,
      this.#agent.exited.then((code) => Promise.reject(new Error(`the agent ended with ${code}`))),
    ])
    const [failure] = this.#failures
    if (failure !== undefined) throw new Error(failure)
  }

  /** Jobs that wait until `openGate`. */
  async hold(jobs: number): Promise<void> {
    // A tenth of a core each: a cluster promises its jobs a share of that, and one node has to hold them all.
    const limits = { memoryBytes: 1e8, cpus: 0.1, pids: 100, timeoutSeconds: 600, graceSeconds: 1 }
    const held = Array.from({ length: jobs }, () => this.#server.manifest({ limits }))
    writeFileSync(join(this.#dir, 'api', 'hold'), '')
    for (const manifest of held) this.#server.assign(manifest)
    const ids = new Set(held.map(({ jobId }) => jobId))
    await this.#until(`${jobs} jobs to run`, () => {
      const started = this.#server.all('job.started').filter(({ jobId }) => ids.has(jobId))
      return started.length >= jobs
    })
  }

  openGate(): void {
    rmSync(join(this.#dir, 'api', 'hold'), { force: true })
  }

  /** What ended is removed after its report: a round should not pay for the one before. */
  idle(): Promise<void> {
    return this.#until('the jobs to be removed', () => readdirSync(join(this.#dir, 'jobs')).length === 0)
  }

  async stop(): Promise<void> {
    await this.#agent.stop()
    await this.#server.close()
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    const deadline = Date.now() + 300_000
    while (!holds()) {
      if (Date.now() > deadline) throw new Error(`waited in vain for ${what}; see ${this.#dir}/agent.log`)
      await pause(5)
    }
  }
}
