import type { CallOutput, Client } from '@tenon/protocol'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { runTenon } from './command.ts'
import { processesOf } from './leftovers.ts'
import { lastWordsIn, statementsOf } from './logs.ts'
import { startInstallRegistry, type InstallRegistry } from './install-registry.ts'
import type { Program } from './program.ts'
import { jobsLeft } from './starts.ts'
import type { Template } from './template.ts'
import { until } from './until.ts'
import { createWire, type Wire, type WireFrame } from './wire.ts'
import { createWorld, type AgentOptions, type Dists, type ServerHandle, type World } from './world.ts'

export type Run = CallOutput<'runs.get'>
export type Job = CallOutput<'jobs.get'>

export const INSTALL = 'acme'
const AGENT = 'agent'

export interface AgentSettings {
  install?: string
  role?: AgentOptions['role']
  /** `process`: its jobs are real, and it has an install registry. */
  runtime?: 'process' | 'fake'
  slots?: number
  env?: Record<string, string>
  /** With the server beside, or of another version. */
  server?: ServerHandle
  dist?: string
}

/** One scenario's world while it plays: what runs, and the verbs with which a scenario changes it. */
export class Stage {
  readonly dists: Dists
  readonly dir = mkdtempSync(join(tmpdir(), 'tenon-scenario-'))
  readonly world: World
  readonly agents = new Map<string, Program>()
  readonly #wires = new Map<string, Wire>()
  readonly #settings = new Map<string, AgentSettings>()
  readonly #registries = new Map<string, InstallRegistry>()
  readonly #load = new AbortController()
  readonly #kept = new Map<string, WireFrame>()
  readonly #programs: Program[] = []
  readonly #serverEnv: Record<string, string>
  /** A server that comes back listens where it did. */
  #port = 0
  #server: ServerHandle | undefined
  #drop: (() => Promise<void>) | undefined
  #databaseUrl: string | undefined

  constructor({ serverEnv, ...dists }: Dists & { serverEnv?: Record<string, string> }) {
    this.dists = dists
    this.world = createWorld({
      ...dists,
      dir: this.dir,
      onStart: (program) => this.#programs.push(program),
    })
    this.#serverEnv = {
      TENON_LEASE_SECONDS: '30',
      TENON_HEARTBEAT_SECONDS: '0.5',
      TENON_RATE_LIMIT_PER_MINUTE: '1000000',
      ...serverEnv,
    }
  }

  async begin(template: Template | undefined): Promise<void> {
    if (template) {
      const copy = await template.copy(this.dir)
      this.#databaseUrl = copy.databaseUrl
      this.#drop = copy.drop
    }
    await this.startServer()
  }

  /** Everything that was started here is gone afterwards; what had to be killed for it is an error. */
  async end(): Promise<void> {
    this.#load.abort()
    for (const wire of this.#wires.values()) wire.cut()
    await Promise.all(this.#programs.toReversed().map((program) => program.stop()))
    for (const wire of this.#wires.values()) await wire.close()
    const left = processesOf(this.dir)
    for (const { pid } of left) process.kill(pid, 'SIGKILL')
    const statements = statementsOf(join(this.dir, 'log', 'server.log'))
    await this.#drop?.()
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 })
    if (left.length > 0) throw new Error(`left running: ${left.map(({ command }) => command).join('; ')}`)
    if (statements > MOST_STATEMENTS) throw new Error(`the server made ${statements} named statements`)
  }

  lastWords(): string {
    return lastWordsIn(join(this.dir, 'log'))
  }

  get server(): ServerHandle {
    if (!this.#server) throw new Error('the server is not there now')
    return this.#server
  }

  get client(): Client {
    return this.server.client
  }

  async startServer(): Promise<void> {
    this.#lead(await this.world.startServer({ env: this.#environment(), port: this.#port }))
  }

  /** On the same database and folder, of another version. */
  startServerBeside(dist: string): Promise<ServerHandle> {
    return this.world.startServer({ env: this.#environment(), dist })
  }

  /** The last step of a rolling update: every agent goes to the new one. */
  async replaceServer(next: ServerHandle): Promise<void> {
    const { program } = this.server
    this.#lead(next)
    await program.stop()
  }

  #environment(): Record<string, string> {
    return { ...this.#serverEnv, ...(this.#databaseUrl ? { DATABASE_URL: this.#databaseUrl } : {}) }
  }

  #lead(server: ServerHandle): void {
    this.#server = server
    this.#port = Number(new URL(server.url).port)
    for (const wire of this.#wires.values()) wire.target(server.url)
  }

  async killServer(): Promise<void> {
    const { program } = this.server
    this.#server = undefined
    program.kill('SIGKILL')
    await program.exited
  }

  /** The server's own; whoever supervises it starts it again. */
  killPostgres(): void {
    const file = join(this.dir, 'server', 'postgres', 'postmaster.pid')
    process.kill(Number(readFileSync(file, 'utf8').split('\n')[0]), 'SIGKILL')
  }

  /** Readers that hardly rest, until the end; what they are answered does not matter. */
  putUnderLoad(readers = 3): void {
    const read = async () => {
      while (!this.#load.signal.aborted) {
        await this.run().catch(() => undefined)
        await pause(10)
      }
    }
    for (let reader = 0; reader < readers; reader++) void read()
  }

  /** Each agent has a wire of its own. */
  async openWire(name = AGENT, { url } = this.server): Promise<Wire> {
    const wire = this.#wires.get(name) ?? (await createWire(url))
    this.#wires.set(name, wire)
    return wire
  }

  wire(name = AGENT): Wire {
    const wire = this.#wires.get(name)
    if (!wire) throw new Error(`there is no wire of ${name}`)
    return wire
  }

  /** A second start goes on with the first one's folder and settings. */
  async startAgent(name = AGENT, given?: AgentSettings): Promise<Program> {
    const settings = given ?? this.#settings.get(name) ?? {}
    this.#settings.set(name, settings)
    const wire = await this.openWire(name, settings.server)
    const runtime = settings.runtime ?? 'fake'
    const registry = runtime === 'fake' ? undefined : await this.#registryOf(name)
    const agent = await this.world.startAgent(this.server, {
      name,
      role: settings.role ?? { install: settings.install ?? INSTALL },
      runtime,
      slots: settings.slots ?? 4,
      serverUrl: wire.url,
      env: { ...registry?.env, ...settings.env },
      ...(settings.dist ? { dist: settings.dist } : {}),
    })
    this.agents.set(name, agent)
    return agent
  }

  async #registryOf(agent: string): Promise<InstallRegistry> {
    const known = this.#registries.get(agent)
    if (known) return known
    const registry = await startInstallRegistry(this.world, this.dists.agentDist ?? this.dists.dist, agent)
    this.#programs.push(registry.program)
    this.#registries.set(agent, registry)
    return registry
  }

  /** A command of the customer's, as it is typed at the agent's side. */
  async atAgent(command: string, name = AGENT): Promise<void> {
    const { code, output } = await runTenon(this, ['agent', command, '--dir', this.world.folder(name)])
    if (code !== 0) throw new Error(`tenon agent ${command} ended with ${code}: ${output}`)
  }

  async killAgent(name = AGENT): Promise<void> {
    const agent = this.agents.get(name)
    if (!agent) throw new Error(`there is no agent ${name}`)
    agent.kill('SIGKILL')
    await agent.exited
  }

  /** As somebody does who copies the disk of a machine: what only a running process has is left out. */
  copyAgent(from: string, to: string): void {
    cpSync(this.world.folder(from), join(this.dir, to), {
      recursive: true,
      filter: (path) => !['agent.lock', 'lock', 'api'].includes(basename(path)) && !path.endsWith('.sock'),
    })
    this.#settings.set(to, this.#settings.get(from) ?? {})
  }

  /** Lets the jobs of a component end that run until they are released. */
  release(component: string): void {
    writeFileSync(this.releaseFile(component), '')
  }

  releaseFile(component: string): string {
    const dir = join(this.dir, 'released')
    mkdirSync(dir, { recursive: true })
    return join(dir, component)
  }

  /** Frames that a scenario wants again later. */
  keep(name: string, frame: WireFrame): void {
    this.#kept.set(name, frame)
  }

  kept(name: string): WireFrame {
    const frame = this.#kept.get(name)
    if (!frame) throw new Error(`no frame was kept as ${name}`)
    return frame
  }

  /** What an agent's runtime holds. */
  jobsOf(agent: string): string[] {
    return jobsLeft(this.dir, agent)
  }

  /** A machine that lost what ran on it; the agent's own folder is still there. */
  vanishJobs(name = AGENT): void {
    for (const file of jobsLeft(this.dir, name)) rmSync(join(this.dir, name, 'jobs', file))
  }

  loseJournal(name = AGENT): void {
    rmSync(join(this.dir, name, 'journal.jsonl'))
  }

  /** The newest run of an install. */
  async run(install = INSTALL): Promise<Run> {
    const { items } = await this.client.call('runs.list', { query: { install, limit: 1 } })
    if (!items[0]) throw new Error(`install ${install} has no run`)
    return items[0]
  }

  /** The job of a step such as `deploy:web` in the newest run. */
  async job(step: string, install = INSTALL): Promise<Job | undefined> {
    const run = await this.run(install)
    const id = run.steps.find((candidate) => candidate.key === step)?.jobId
    return id ? this.client.call('jobs.get', { params: { id } }) : undefined
  }

  async jobId(step: string, install = INSTALL): Promise<string> {
    return (await until(`the job ${step}`, () => this.job(step, install))).id
  }

  untilJob(step: string, status: Job['status'], install = INSTALL): Promise<Job> {
    return until(`the job ${step} to be ${status}`, async () => {
      const job = await this.job(step, install)
      return job?.status === status && job
    })
  }

  untilRun(status: Run['status'], install = INSTALL): Promise<Run> {
    return until(`the run to be ${status}`, async () => {
      const run = await this.run(install)
      return run.status === status && run
    })
  }

  async log(jobId: string): Promise<string> {
    const answer = await this.client.call('jobs.logs', { params: { id: jobId }, query: {} })
    return answer.text()
  }

  /** Behind the server's back. */
  async sql(statement: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.#databaseUrl })
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(statement, values)).rows
    } finally {
      await client.end()
    }
  }
}

/** Every connection of a server keeps its statements: what makes new ones as it goes on would use them up. */
const MOST_STATEMENTS = 200
