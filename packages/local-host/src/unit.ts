import { access, mkdir, rm } from 'node:fs/promises'
import type { ApplyResult, UnitSpec, UnitStatus } from '@tenon/protocol/local-host'
import { closing, messageOf } from './errors.ts'
import { launch, planLaunch } from './launch.ts'
import type { LaunchPlan } from './launch.ts'
import type { Logger } from './logger.ts'
import { watchProcess } from './process-watch.ts'
import type { Watch } from './process-watch.ts'
import { fateOf, readProcessRecord, signalGroup } from './process-identity.ts'
import { readStateFile, writeStateFile } from './state-file.ts'
import { desiredSchema, pruneVersions, stageVersion, unitPaths } from './unit-files.ts'
import type { Desired, UnitPaths } from './unit-files.ts'
import { tailLog } from './unit-log.ts'
import { after, backoffMs, toStatus, unborn } from './unit-status.ts'
import type { Vitals, VitalsEvent } from './unit-status.ts'
import { stopGroup } from './stop-group.ts'
import { waitForHealth } from './wait-for-health.ts'

/**
 * One supervised process and its desired state on disk. Changes run one after the other; the process is
 * never started while another of the same unit may live.
 */
export class Unit {
  readonly name: string
  readonly paths: UnitPaths
  readonly #context: UnitContext
  #desired: Desired | undefined
  #vitals: Vitals
  #running: Running | undefined
  #watch: Watch | undefined
  #restart: NodeJS.Timeout | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #closed = false
  readonly #listeners = new Set<() => void>()

  constructor(name: string, folder: string, context: UnitContext) {
    this.name = name
    this.paths = unitPaths(folder)
    this.#context = context
    this.#vitals = unborn(context.now())
  }

  /** Reads the desired state and brings it to life: adopts what runs already, starts what does not. */
  start(): Promise<string | undefined> {
    return this.#inTurn(async () => {
      const loaded = await readStateFile(this.paths.desired, desiredSchema, this.#context.now())
      if (loaded.kind === 'found') this.#desired = loaded.value
      if (this.#desired) this.#note({ kind: 'wanted' })
      await this.#adoptOrClear()
      if (this.#desired && !this.#running) await this.#launch()
      return loaded.kind === 'broken' ? loaded.problem : undefined
    })
  }

  /** Makes this the desired state. The same state again touches nothing. */
  apply(spec: UnitSpec): Promise<{ changed: boolean; version: string }> {
    return this.#inTurn(async () => {
      if (this.#closed) throw closing(`The unit ${this.name}`)
      await mkdir(this.paths.folder, { recursive: true, mode: 0o700 })
      const next = await stageVersion(this.paths, spec, this.#desired?.lastHealthy ?? null)
      if (next.version === this.#desired?.version) return { changed: false, version: next.version }
      await writeStateFile(this.paths.desired, next)
      this.#desired = next
      this.#note({ kind: 'wanted' })
      await pruneVersions(this.paths, [next.version, next.lastHealthy])
      await this.#stopProcess()
      await this.#launch()
      return { changed: true, version: next.version }
    })
  }

  waitUntilHealthy(version: string, waitMs: number, signal: AbortSignal): Promise<Waited> {
    return waitForHealth({
      version,
      waitMs,
      signal,
      logPath: this.paths.log,
      wanted: () => (this.#closed ? undefined : this.#desired?.version),
      vitals: () => this.#vitals,
      onChange: (listener) => {
        this.#listeners.add(listener)
        return () => this.#listeners.delete(listener)
      },
    })
  }

  status(): UnitStatus {
    return toStatus(this.name, this.#vitals)
  }

  logs(lines: number): Promise<string[]> {
    return tailLog(this.paths.log, lines)
  }

  /** Ends the process and keeps the desired state, which the next start brings back. */
  stop(): Promise<void> {
    this.#closed = true
    return this.#inTurn(() => this.#stopProcess())
  }

  /** Lets go of the process without touching it: the next local-host adopts it. */
  detach(): Promise<void> {
    this.#closed = true
    return this.#inTurn(async () => {
      clearTimeout(this.#restart)
      this.#watch?.stop()
      this.#running = undefined
      this.#announce()
    })
  }

  async remove(): Promise<void> {
    await this.stop()
    await rm(this.paths.folder, { recursive: true, force: true })
  }

  async #adoptOrClear(): Promise<void> {
    const record = readProcessRecord(this.paths.process)
    const fate = record ? fateOf(record) : 'gone'
    if (!record || fate === 'gone') return
    if (fate === 'leftover') {
      await stopGroup(record.pid, 0)
      return
    }
    this.#running = { pid: record.pid, version: record.version }
    if (this.#desired && this.#desired.version !== record.version) return this.#stopProcess()
    this.#note({ kind: 'adopted', pid: record.pid, version: record.version })
    this.#context.log.info({ ...this.#names(), pid: record.pid }, 'adopted a running process')
    this.#observe(this.#running, () => fateOf(record) === 'alive')
  }

  async #launch(): Promise<void> {
    const desired = this.#desired
    if (!desired || this.#closed || this.#running) return
    const { installId, now, log, agentEnv } = this.#context
    const plan = planLaunch({ installId, name: this.name }, this.paths, desired, agentEnv)
    const missing = await missingFolder(plan)
    if (missing) return this.#ended({ code: null, signal: null, error: missing })
    const child = launch(plan, this.paths, desired.version, now())
    child.on('error', (error) => {
      if (child.pid === undefined) this.#ended({ code: null, signal: null, error: messageOf(error) })
    })
    if (child.pid === undefined) return
    const running: Running = { pid: child.pid, version: desired.version }
    this.#running = running
    this.#note({ kind: 'launched', pid: child.pid, version: desired.version })
    log.info({ ...this.#names(), pid: child.pid, version: desired.version }, 'started')
    child.once('exit', (code, signal) => {
      if (this.#running === running) this.#ended({ code, signal, error: null })
    })
    this.#observe(running, undefined)
  }

  #observe(running: Running, isAlive: (() => boolean) | undefined): void {
    this.#watch = watchProcess({
      health: this.#desired?.spec.health ?? 'none',
      logPath: this.paths.log,
      isAlive,
      state: () => this.#vitals.state,
      onGone: () => {
        if (this.#running === running) this.#ended({ code: null, signal: null, error: null })
      },
      onProbe: (error) => {
        if (this.#running !== running) return
        const wasHealthy = this.#vitals.state === 'healthy'
        this.#note(error === undefined ? { kind: 'probe_passed' } : { kind: 'probe_failed', error })
        if (!wasHealthy && this.#vitals.state === 'healthy') this.#keepOnlyHealthy(running.version)
      },
      onFault: (error) =>
        this.#context.log.error({ ...this.#names(), error: messageOf(error) }, 'watch failed'),
    })
  }

  /** What is left of the group goes too: a child that holds the port would keep the next one from starting. */
  #ended(exit: { code: number | null; signal: string | null; error: string | null }): void {
    this.#watch?.stop()
    if (this.#running) signalGroup(this.#running.pid, 'SIGKILL')
    this.#running = undefined
    const again = this.#desired !== undefined && !this.#closed
    this.#note({ kind: 'exited', ...exit, again })
    this.#context.log.warn({ ...this.#names(), ...exit, crashes: this.#vitals.crashes }, 'ended by itself')
    if (!again) return
    const delay = backoffMs(this.#vitals.crashes, this.#context.random)
    this.#restart = setTimeout(() => this.#background(() => this.#launch()), delay)
  }

  async #stopProcess(): Promise<void> {
    clearTimeout(this.#restart)
    this.#watch?.stop()
    const running = this.#running
    this.#running = undefined
    if (running) await stopGroup(running.pid, (this.#desired?.spec.stopGraceSeconds ?? 10) * 1000)
    await rm(this.paths.process, { force: true })
    this.#note({ kind: 'stopped' })
  }

  #keepOnlyHealthy(version: string): void {
    this.#background(async () => {
      if (!this.#desired || this.#desired.version !== version) return
      if (this.#desired.lastHealthy !== version) {
        this.#desired = { ...this.#desired, lastHealthy: version }
        await writeStateFile(this.paths.desired, this.#desired)
      }
      await pruneVersions(this.paths, [version])
    })
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work)
    this.#turn = result.catch(() => undefined)
    return result
  }

  #background(work: () => Promise<void>): void {
    this.#inTurn(async () => {
      if (!this.#closed) await work()
    }).catch((error: unknown) => {
      this.#context.log.error({ ...this.#names(), error: messageOf(error) }, 'supervision failed')
    })
  }

  #note(event: VitalsEvent): void {
    this.#vitals = after(this.#vitals, event, this.#context.now())
    this.#announce()
  }

  #announce(): void {
    for (const listener of this.#listeners) listener()
  }

  #names(): { install: string; unit: string } {
    return { install: this.#context.installId, unit: this.name }
  }
}

async function missingFolder(plan: LaunchPlan): Promise<string | undefined> {
  try {
    await access(plan.cwd)
    return undefined
  } catch {
    return `the working folder ${plan.cwd} does not exist`
  }
}

export interface UnitContext {
  installId: string
  log: Logger
  now: () => number
  random: () => number
  /** What the agent of an install gets besides its own; other units get none of it. */
  agentEnv?: Record<string, string> | undefined
}

type Waited = Pick<ApplyResult, 'outcome' | 'reason' | 'logTail'>

interface Running {
  pid: number
  version: string
}
