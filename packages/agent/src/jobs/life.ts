import { randomBytes } from 'node:crypto'
import { chmod, mkdir } from 'node:fs/promises'
import { documentDigest, type Holder, type JobManifest } from '@tenon/core'
import { jobReport, type JobReport } from '@tenon/protocol'
import type { Logger } from 'pino'
import { findDeclared } from '../egress/declared.ts'
import type { Target } from '../egress/target.ts'
import { sha256 } from '../ground/crypto.ts'
import { messageOf } from '../ground/errors.ts'
import { pause } from '../ground/pause.ts'
import type { EventOutbox } from '../journal/event-outbox.ts'
import type { JobRecord } from '../journal/journal-state.ts'
import type { LogShipper } from '../journal/log-shipper.ts'
import { GivenSecrets } from '../masking/given-secrets.ts'
import type { Mask } from '../masking/mask.ts'
import { RuntimeError, type JobExit, type JobHandle, type Runtime } from '../runtime/runtime.ts'
import type { InstallStore } from '../store/install-store.ts'
import {
  decideOutcome,
  heldState,
  namingTheCustomer,
  syncedDetails,
  type JobEnd,
  type Recovery,
} from './decisions.ts'
import { buildJobSpec, cacheDirOf, type JobSpecSettings } from './spec.ts'
import { StartGate, type StartGateContext } from './start-gate.ts'

/** setTimeout takes no more. */
const MAX_TIMER_MS = 2_147_483_647
const ASK_AGAIN_MS = 1000
const BOUND_LOG_EVERY_MS = 2000

export interface JobLifeContext extends StartGateContext {
  runtime: Runtime
  /** What holds jobs here, in the words that the server was told. */
  confinement: string
  shipper: LogShipper
  events: EventOutbox
  spec: JobSpecSettings
  /** Install agents only. */
  store: InstallStore | undefined
  /** Seals what jobs were given. */
  givenKey: Uint8Array
  maxLogBytes: number
  log: Logger
}

/** One job from its acceptance to its signed report. Everything it decides on is in its journal record. */
export class JobLife {
  readonly manifest: JobManifest
  readonly record: JobRecord
  /** When the server was last told how far the job is. */
  progressAt = 0
  /** From then on what its component's outputs say is its own word. */
  hasGivenOutputs: boolean
  readonly #context: JobLifeContext
  readonly #log: Logger
  /** The agent stops, or the job was forgotten: nothing more is said about it. */
  readonly #left = new AbortController()
  readonly #canceled = new AbortController()
  #handle: JobHandle | undefined
  readonly #given: GivenSecrets
  #isOver = false
  readonly #gate: StartGate

  constructor(context: JobLifeContext, record: JobRecord, manifest: JobManifest) {
    this.#context = context
    this.record = record
    this.manifest = manifest
    this.hasGivenOutputs = Object.keys(record.outputs).length > 0
    this.#log = context.log.child({ jobId: record.jobId, fence: record.fence })
    this.#given = new GivenSecrets(context.givenKey, record.given)
    this.#gate = new StartGate(context, record, manifest, this.#log)
    if (record.cancelRequested) this.#canceled.abort()
  }

  /** Hides what the job was given so far. */
  get mask(): Mask {
    return this.#given.mask
  }

  /** Resolves when the values are on disk, sealed: only then the job may have them. */
  async give(values: readonly string[]): Promise<void> {
    const sealed = this.#given.add(values)
    if (sealed !== undefined) await this.#context.journal.append({ type: 'given', ...this.id, sealed })
  }

  get id(): { jobId: string; fence: number } {
    return { jobId: this.record.jobId, fence: this.record.fence }
  }

  /** Its program has ended, though the report may not be on disk yet: it holds nothing any more. */
  get isOver(): boolean {
    return this.#isOver || this.record.finished !== null
  }

  /** Resolves when the report is on disk, or the job was left. */
  async live(how: Recovery): Promise<void> {
    const { shipper, slots } = this.#context
    if (how.type === 'deliver') {
      const { jobId, fence, logAcked, logEnded } = this.record
      if (!logEnded) shipper.add(jobId, fence, logAcked, () => this.mask)
      return
    }
    const holder = holderOf(this.manifest)
    const holdsSlot = how.type === 'start' ? await this.#gate.pass(holder, this.#leftOrCanceled()) : true
    if (how.type !== 'start') slots.take(holder)
    try {
      const end = await this.#toItsEnd(how)
      this.#isOver = end !== undefined
      if (end && !this.#left.signal.aborted)
        await this.#report(namingTheCustomer(end, this.record.stoppedByCustomer))
    } finally {
      if (holdsSlot) slots.release(holder.jobId)
    }
  }

  /** From now on the job is no business of this process; it goes on running. */
  leave(): void {
    this.#left.abort()
  }

  async cancel(by?: 'customer'): Promise<void> {
    if (this.record.finished || this.record.cancelRequested) return
    await this.#context.journal.append({ type: 'cancel', ...this.id, ...(by ? { by } : {}) })
    this.#canceled.abort()
    if (this.#handle) this.#stopSoon('canceled')
  }

  /** What `hello` is about to tell. */
  inventoried(): { jobId: string; fence: number; state: ReturnType<typeof heldState> } {
    return { ...this.id, state: heldState(this.record) }
  }

  /** That it runs, or for what it waits. Told in each session: the one before may have been cut before. */
  tellState(): void {
    const { startedAt, finished, held } = this.record
    this.#gate.tellState()
    if (finished || startedAt === null) return
    // Who was held must not be taken for held while an image is pulled: after its last moment to start it would be replaced.
    if (!this.#handle && !held) return
    const confinement = this.#handle?.confinement ?? this.#context.confinement
    this.#context.send({ type: 'job.started', ...this.id, at: startedAt, confinement })
  }

  async #toItsEnd(how: Recovery): Promise<JobEnd | undefined> {
    const { runtime, shipper } = this.#context
    const { jobId, fence } = this.record
    const failure = how.type === 'start' ? await this.#start() : await this.#attach()
    if (failure !== undefined || !this.#handle) return failure
    this.tellState()
    shipper.add(jobId, fence, this.record.logAcked, () => this.mask)
    if (this.#canceled.signal.aborted) this.#stopSoon('canceled')
    const deadline = this.#handle.state === 'running' ? this.#watchDeadline() : undefined
    const bounding = setInterval(() => void this.#boundLog(), BOUND_LOG_EVERY_MS)
    const exit = await this.#insist(() => runtime.wait(jobId, this.#left.signal))
    clearInterval(bounding)
    clearTimeout(deadline?.timer)
    return exit && decideOutcome(exit, this.record.result)
  }

  /** A runtime that fails to answer says nothing about the job: only asking again does. */
  async #insist<T>(ask: () => Promise<T>): Promise<T | undefined> {
    while (!this.#left.signal.aborted) {
      try {
        return await ask()
      } catch (error) {
        if (this.#left.signal.aborted) return undefined
        this.#log.error({ err: error }, 'the runtime does not tell about the job; it is asked again')
        await pause(ASK_AGAIN_MS, this.#left.signal)
      }
    }
    return undefined
  }

  async #start(): Promise<JobEnd | undefined> {
    const { runtime, journal, clock } = this.#context
    if (this.#left.signal.aborted) return undefined
    if (this.#canceled.signal.aborted) return canceledBeforeStart()
    const token = randomBytes(32).toString('base64url')
    const at = new Date(clock()).toISOString()
    const tokenHash = sha256(Buffer.from(token))
    const given = this.#given.add([token])
    await journal.append({ type: 'starting', ...this.id, at, tokenHash, ...(given ? { given } : {}) })
    if (this.#canceled.signal.aborted) return canceledBeforeStart()
    if (this.record.held) this.tellState()
    try {
      await makeCacheDir(cacheDirOf(this.#context.spec.agentDir, this.manifest))
      const spec = buildJobSpec(this.manifest, token, this.#context.spec, await this.#outputTargets())
      this.#handle = await runtime.start(spec)
      return undefined
    } catch (error) {
      this.#log.error({ err: error }, 'the job could not be started')
      const reason = error instanceof RuntimeError ? error.reason : 'start'
      return { outcome: 'failed', reason, exitCode: null, message: messageOf(error) }
    }
  }

  /** A job that does not need them starts without those that cannot be read; one that does is told so by the job API. */
  async #outputTargets(): Promise<readonly Target[]> {
    try {
      return (await findDeclared(this.#context.store, this.manifest, () => !this.hasGivenOutputs)).outputs
    } catch (error) {
      this.#log.warn({ err: error }, 'the outputs that the job may reach could not be read')
      return []
    }
  }

  async #attach(): Promise<JobEnd | undefined> {
    const { runtime, events } = this.#context
    const handle = await this.#insist(() => runtime.attach(this.record.jobId))
    if (this.#left.signal.aborted) return undefined
    if (handle?.fence !== this.record.fence) {
      return decideOutcome(gone('Nothing of the job was left when the agent came back.'), null)
    }
    this.#handle = handle
    await events.raise('agent.reattached', this.record.jobId, { fence: handle.fence, state: handle.state })
    return undefined
  }

  /** A job that prints without end must not fill the disk: what nobody will ship takes no room there. */
  async #boundLog(): Promise<number | undefined> {
    const { runtime, maxLogBytes } = this.#context
    try {
      return await runtime.boundLog?.(this.record.jobId, maxLogBytes)
    } catch (error) {
      this.#log.warn({ err: error }, 'the log of the job on the disk could not be bounded')
      return undefined
    }
  }

  /** Counted from the journaled start, so that a restart of the agent gives no job more time. */
  #watchDeadline(): { timer: NodeJS.Timeout | undefined } {
    const watch: { timer: NodeJS.Timeout | undefined } = { timer: undefined }
    const end = Date.parse(this.record.startedAt ?? '') + this.manifest.limits.timeoutSeconds * 1000
    const check = () => {
      const left = end - this.#context.clock()
      if (left <= 0) this.#stopSoon('timeout')
      else watch.timer = setTimeout(check, Math.min(left, MAX_TIMER_MS))
    }
    check()
    return watch
  }

  #stopSoon(reason: 'canceled' | 'timeout'): void {
    const { jobId } = this.record
    this.#context.runtime
      .stop(jobId, this.manifest.limits.graceSeconds, reason)
      .catch((error: unknown) => this.#log.error({ err: error, reason }, 'the job could not be stopped'))
  }

  async #report(end: JobEnd): Promise<void> {
    const { journal, sign, agentId, clock, events } = this.#context
    const { record } = this
    const logBytes = await this.#countLog()
    if (this.#left.signal.aborted) return
    const report: JobReport = jobReport.parse({
      ...this.id,
      agentId,
      manifestDigest: documentDigest(record.document.text, sha256),
      ...end,
      message: this.mask.text(end.message),
      result: record.result?.data ?? {},
      outputs: record.outputs,
      logBytes,
      startedAt: record.startedAt,
      finishedAt: new Date(clock()).toISOString(),
    })
    const signed = sign('job-report/1', report)
    if (this.manifest.kind === 'sync')
      await events.raise('agent.synced', record.jobId, syncedDetails(this.manifest, report))
    await journal.append({ type: 'finished', ...this.id, signed })
    this.#log.info({ outcome: report.outcome, reason: report.reason }, 'job ended')
  }

  /** The whole log as the server will have it; what is past the bound is counted as dropped. */
  async #countLog(): Promise<number> {
    const { runtime, shipper, journal, state, events, maxLogBytes } = this.#context
    const { jobId } = this.record
    if (!this.#handle) return 0
    let total = shipper.readUpTo(jobId)
    try {
      const size = await this.#boundLog()
      // Where it is a file its size is known; past the bound lies a hole that nobody should read to count it.
      if (size !== undefined) total = size
      else for await (const chunk of runtime.logs(jobId, total, this.#left.signal)) total += chunk.byteLength
    } catch (error) {
      this.#log.error({ err: error }, 'the log of the job could not be read to its end')
    }
    const dropped = total - maxLogBytes
    if (dropped <= 0) return total
    await journal.append({ type: 'dropped', total: state.dropped + dropped })
    await events.raise('agent.dropped', jobId, { bytes: dropped })
    return maxLogBytes
  }

  #leftOrCanceled(): AbortSignal {
    return AbortSignal.any([this.#left.signal, this.#canceled.signal])
  }
}

function holderOf({ jobId, kind, limits: { memoryBytes, cpus } }: JobManifest): Holder {
  return { jobId, kind, memoryBytes, cpus }
}

/** The agent's folder lets nobody in; a container's own user must still be able to write this one. */
async function makeCacheDir(dir: string | undefined): Promise<void> {
  if (dir === undefined) return
  await mkdir(dir, { recursive: true })
  await chmod(dir, 0o777)
}

function canceledBeforeStart(): JobEnd {
  return {
    outcome: 'canceled',
    reason: 'canceled',
    exitCode: null,
    message: 'The job was canceled before it started.',
  }
}

function gone(message: string): JobExit {
  return { reason: 'gone', exitCode: null, message }
}
