import { randomBytes } from 'node:crypto'
import { chmod, mkdir } from 'node:fs/promises'
import { describeShortage, documentDigest, type Holder, type JobManifest } from '@tenon/core'
import { jobReport, type AgentFrame, type AgentVerdict, type JobReport } from '@tenon/protocol'
import type { Logger } from 'pino'
import { sha256, type SignText } from './crypto.ts'
import type { EventOutbox } from './event-outbox.ts'
import { messageOf } from './errors.ts'
import {
  decideOutcome,
  heldState,
  namingTheCustomer,
  syncedDetails,
  type JobEnd,
  type Recovery,
} from './job-decisions.ts'
import { holdOf, type Hold, type Holds } from './hold.ts'
import { buildJobSpec, cacheDirOf, type JobSpecSettings } from './job-spec.ts'
import type { Journal } from './journal.ts'
import type { JobRecord, JournalEntry, JournalState } from './journal-state.ts'
import type { LogShipper } from './log-shipper.ts'
import { GivenSecrets } from './masking/given-secrets.ts'
import type { Mask } from './masking/mask.ts'
import { pause } from './pause.ts'
import { RuntimeError, type JobExit, type JobHandle, type Runtime } from './runtime/runtime.ts'
import type { Slots } from './slots.ts'

/** setTimeout takes no more. */
const MAX_TIMER_MS = 2_147_483_647
const ASK_AGAIN_MS = 1000
const BOUND_LOG_EVERY_MS = 2000

export interface JobLifeContext {
  agentId: string
  sign: SignText
  journal: Journal<JournalEntry>
  state: JournalState
  runtime: Runtime
  slots: Slots
  holds: Holds
  shipper: LogShipper
  events: EventOutbox
  spec: JobSpecSettings
  /** Seals what jobs were given. */
  givenKey: Uint8Array
  maxLogBytes: number
  send: (frame: AgentFrame) => boolean
  clock: () => number
  log: Logger
}

/** One job from its acceptance to its signed report. Everything it decides on is in its journal record. */
export class JobLife {
  readonly manifest: JobManifest
  readonly record: JobRecord
  /** When the server was last told how far the job is. */
  progressAt = 0
  readonly #context: JobLifeContext
  readonly #log: Logger
  /** The agent stops, or the job was forgotten: nothing more is said about it. */
  readonly #left = new AbortController()
  readonly #canceled = new AbortController()
  #handle: JobHandle | undefined
  readonly #given: GivenSecrets
  #isOver = false
  #waitsFor: string | undefined
  #holdTold: string | undefined
  #hasLapsed = false

  constructor(context: JobLifeContext, record: JobRecord, manifest: JobManifest) {
    this.#context = context
    this.record = record
    this.manifest = manifest
    this.#log = context.log.child({ jobId: record.jobId, fence: record.fence })
    this.#given = new GivenSecrets(context.givenKey, record.given)
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
    const place = placeOf(this.manifest)
    const holdsSlot = how.type === 'start' ? await this.#mayStart(place) : true
    if (this.#hasLapsed) return
    if (how.type !== 'start') slots.take(place)
    try {
      const end = await this.#toItsEnd(how)
      this.#isOver = end !== undefined
      if (end && !this.#left.signal.aborted)
        await this.#report(namingTheCustomer(end, this.record.stoppedByCustomer))
    } finally {
      if (holdsSlot) slots.release(place.jobId)
    }
  }

  /** It was held until it might not start any more: the server has its step ask anew. */
  get hasLapsed(): boolean {
    return this.#hasLapsed
  }

  /** Waits for the customer's word and for a slot. With neither there is nothing to give back. */
  async #mayStart(place: Holder): Promise<boolean> {
    for (;;) {
      if (!(await this.#untilAllowed()) || !(await this.#takePlace(place))) return false
      const isLate = this.record.held !== null && this.#msToStart() <= 0
      if (!isLate && !holdOf(this.#context.state)) return true
      this.#context.slots.release(place.jobId)
      if (isLate) return this.#lapse()
    }
  }

  async #untilAllowed(): Promise<boolean> {
    const { state, holds } = this.#context
    const signal = this.#leftOrCanceled()
    for (let hold = holdOf(state); hold; hold = holdOf(state)) {
      if (signal.aborted) return false
      await this.#hold(hold)
      const left = this.#msToStart()
      if (left <= 0) return this.#lapse()
      await holds.wait(signal, left)
    }
    return true
  }

  /** Told to the server in signed words; what it was told already is not said anew. */
  async #hold(hold: Hold): Promise<void> {
    const { journal, sign, agentId, clock } = this.#context
    if (this.#holdTold === hold.reason) return
    this.#holdTold = hold.reason
    const at = new Date(clock()).toISOString()
    const manifestDigest = documentDigest(this.record.document.text, sha256)
    const verdict: AgentVerdict = { agentId, ...this.id, manifestDigest, answer: 'not_now', ...hold, at }
    const since = this.record.held?.since ?? at
    await journal.append({ type: 'held', ...this.id, since, verdict: sign('agent-verdict/1', verdict) })
    this.#log.info({ rule: hold.rule }, `job held: ${hold.reason}`)
    this.tellState()
  }

  /** Until the server has answered, the manifest's own end counts. */
  #msToStart(): number {
    return Date.parse(this.record.startBefore ?? this.manifest.expiresAt) - this.#context.clock()
  }

  #lapse(): false {
    this.#hasLapsed = true
    this.#log.warn('a held job may not start any more')
    return false
  }

  /** While it waits the server is told for what, so that whoever asks can be told. */
  async #takePlace(place: Holder): Promise<boolean> {
    const { slots, send } = this.#context
    let said = ''
    const say = (message: string) => {
      if (message !== said) send({ type: 'job.progress', ...this.id, message, fraction: null })
      said = message
    }
    const isIn = await slots.acquire(
      place,
      this.#leftOrCanceled(),
      (shortage, ahead) => {
        this.#waitsFor = describeShortage(shortage, ahead)
        say(this.#waitsFor)
      },
      this.record.held !== null,
    )
    this.#waitsFor = undefined
    if (isIn && said !== '') say('starts')
    return isIn
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
    if (held && startedAt === null && !finished)
      this.#context.send({ type: 'job.held', ...this.id, verdict: held.verdict })
    if (this.#waitsFor !== undefined) {
      this.#context.send({ type: 'job.progress', ...this.id, message: this.#waitsFor, fraction: null })
    }
    if (finished || startedAt === null || !this.#handle) return
    const { confinement } = this.#handle
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
    const { runtime, journal, spec, clock } = this.#context
    if (this.#left.signal.aborted) return undefined
    if (this.#canceled.signal.aborted) return canceledBeforeStart()
    const token = randomBytes(32).toString('base64url')
    const at = new Date(clock()).toISOString()
    const tokenHash = sha256(Buffer.from(token))
    const given = this.#given.add([token])
    await journal.append({ type: 'starting', ...this.id, at, tokenHash, ...(given ? { given } : {}) })
    if (this.#canceled.signal.aborted) return canceledBeforeStart()
    try {
      await makeCacheDir(cacheDirOf(spec.agentDir, this.manifest))
      this.#handle = await runtime.start(buildJobSpec(this.manifest, token, spec))
      return undefined
    } catch (error) {
      this.#log.error({ err: error }, 'the job could not be started')
      const reason = error instanceof RuntimeError ? error.reason : 'start'
      return { outcome: 'failed', reason, exitCode: null, message: messageOf(error) }
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

function placeOf({ jobId, kind, limits: { memoryBytes, cpus } }: JobManifest): Holder {
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
