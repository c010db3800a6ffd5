import { setMaxListeners } from 'node:events'
import {
  documentDigest,
  isSignedBy,
  parseDocument,
  type JobManifest,
  type ManifestTarget,
  type SignedDocument,
} from '@tenon/core'
import {
  readManifest,
  readStartedManifest,
  startPermit,
  type AgentVerdict,
  type StartPermit,
} from '@tenon/protocol'
import type { Logger } from 'pino'
import type { Welcome } from '../channel/channel.ts'
import type { HelloContent } from '../channel/handshake.ts'
import { equalInConstantTime, sha256, verify } from '../ground/crypto.ts'
import { pause } from '../ground/pause.ts'
import type { EventOutbox } from '../journal/event-outbox.ts'
import type { JobRecord } from '../journal/journal-state.ts'
import { decideAssign, decideRecovery, orphans, type Recovery, type Refusal } from './decisions.ts'
import { JobLife, type JobLifeContext } from './life.ts'

/** How long a report waits for its log, so that the record is complete when the job ends. */
const LOG_WAIT_MS = 10_000
/** A report that is not settled after this is sent again, also within a session. */
const RESEND_MS = 15_000
/** A settled job whose log the server does not take goes after this; what it lacks is counted. */
const SETTLED_LOG_WAIT_MS = 60_000
/** Far more than can be on their way twice; anybody on the wire can make an agent refuse. */
const KEPT_REFUSALS = 1000

export interface JobRunnerContext extends JobLifeContext {
  serverId: string
  target: ManifestTarget
  keys: () => ReadonlyMap<string, string>
  /** Something that must not happen happened: the agent has to end and start anew. */
  onFatal: (error: unknown) => void
}

interface Held {
  life: JobLife
  /** Resolves when the acceptance is on disk. */
  accepted: Promise<void>
  /** Resolves when the report is on disk or the job was left. */
  lived: Promise<void>
  sentAt: number | undefined
  settled: boolean
  /** Set once the job is to leave no trace: from then on nothing is said about it. */
  closing: Promise<void> | undefined
}

/** Every job of this agent, and what the server says about them. */
export class JobRunner {
  readonly #context: JobRunnerContext
  readonly #held = new Map<string, Held>()
  readonly #refused = new Map<string, Refusal>()
  readonly #leaving = new AbortController()
  #hearServer: () => void = () => undefined
  /** Resolves once the server has said in a session what is to be stopped. */
  readonly #serverHeard = new Promise<void>((resolve) => (this.#hearServer = resolve))
  readonly #log: Logger
  readonly #events: EventOutbox

  constructor(context: JobRunnerContext) {
    this.#context = context
    this.#log = context.log
    this.#events = context.events
  }

  get running(): number {
    return this.#context.slots.used
  }

  get slots(): number {
    return this.#context.slots.total
  }

  inventory(): HelloContent['inventory'] {
    return [...this.#held.values()].map(({ life }) => life.inventoried())
  }

  /** The job that this token belongs to, as long as it runs. */
  authenticate(token: string): JobLife | undefined {
    const hash = sha256(Buffer.from(token))
    for (const { life } of this.#held.values()) {
      const { tokenHash, finished } = life.record
      if (tokenHash && !finished && equalInConstantTime(tokenHash, hash)) return life
    }
    return undefined
  }

  /** The one live job that holds Terraform's lock on a component's state. A dead job holds none. */
  stateLockHolder(component: string): JobLife | undefined {
    for (const { life } of this.#held.values()) {
      if (!life.isOver && life.record.stateLocks.has(component)) return life
    }
    return undefined
  }

  /** Goes on with what the agent's earlier life left: before the first session. */
  async recover(): Promise<void> {
    const { runtime, state } = this.#context
    setMaxListeners(0, this.#leaving.signal)
    const found = await runtime.list()
    for (const orphan of orphans(state.jobs, found)) {
      await this.#remove(orphan.jobId)
      await this.#events.raise('agent.swept', orphan.jobId, { fence: orphan.fence })
    }
    for (const record of state.jobs.values()) {
      const manifest = keptManifestOf(record)
      if (!manifest) {
        await this.#forgetUnread(record)
        continue
      }
      const handle = found.find((candidate) => candidate.jobId === record.jobId)
      const life = new JobLife(this.#context, record, manifest)
      const how = decideRecovery(record, handle)
      this.#hold(life, mustHearServer(record, how) ? this.#serverHeard : Promise.resolve(), how)
    }
  }

  /** A later version of the agent accepted it. It never began, so the server gives it out anew. */
  async #forgetUnread({ jobId, fence }: JobRecord): Promise<void> {
    this.#log.error({ jobId }, 'a job of the journal is not understood and is forgotten')
    await this.#remove(jobId)
    await this.#events.raise('agent.job_forgotten', jobId, { fence })
    await this.#context.journal.append({ type: 'closed', jobId, fence })
  }

  /** Accepts or refuses; an accepted job is on disk before the server hears of it. */
  async assign(document: SignedDocument): Promise<void> {
    if (this.#leaving.signal.aborted) return
    const { keys, serverId, target, skewMs, clock, state, journal, send } = this.#context
    const check = {
      document,
      keys: keys(),
      serverId,
      target,
      nowMs: clock(),
      skewMs,
      state,
      refused: this.#refused,
    }
    const verdict = decideAssign(check)
    if (verdict.type === 'refuse') return this.#refuse(verdict, document)
    if (verdict.type === 'again') {
      const { jobId, fence } = verdict
      await this.#held.get(jobId)?.accepted
      send({ type: 'job.accepted', jobId, fence })
      this.#held.get(jobId)?.life.tellState()
      return
    }
    if (verdict.supersedes) {
      await this.#forget(verdict.supersedes.jobId)
      return this.assign(document)
    }
    const { jobId, fence, expiresAt } = verdict.manifest
    this.#context.runtime.expect?.()
    const accepted = journal.append({ type: 'accepted', jobId, fence, document, expiresAt })
    const record = state.jobs.get(jobId)
    if (!record) return accepted
    const life = new JobLife(this.#context, record, verdict.manifest)
    this.#hold(life, accepted, { type: 'start' })
    await accepted
    send({ type: 'job.accepted', jobId, fence })
  }

  /** The server's word on until when a held job may start. */
  async permit(document: SignedDocument): Promise<void> {
    const { keys, serverId, journal, holds } = this.#context
    const key = keys().get(document.keyId)
    const permit = startPermit.safeParse(parseDocument(document.text)).data
    if (!key || !permit || permit.serverId !== serverId || !isSignedBy('job-start/1', document, key, verify))
      return this.#log.warn('a permit to start a held job does not verify, and is ignored')
    const held = this.#find(permit.jobId, permit.fence)
    if (!held?.life.record.held) return
    await journal.append({
      type: 'permit',
      ...held.life.id,
      startBefore: latestStart(permit, held.life.record.held),
    })
    holds.wake()
  }

  /** The customer's word has changed: what was held for it may start. */
  allow(): void {
    this.#context.holds.wake()
  }

  async cancel(jobId: string, fence: number): Promise<void> {
    const held = this.#find(jobId, fence)
    if (held) await held.life.cancel()
  }

  /** The customer's own hand: needs no fencing number, since the job is the one that is here. */
  async stopHere(jobId: string): Promise<HelloContent['inventory'][number] | undefined> {
    const held = this.#held.get(jobId)
    if (!held || held.closing) return undefined
    await held.accepted
    await held.life.cancel('customer')
    return held.life.inventoried()
  }

  /** The server has the result for good. What is left of the job goes once its log is shipped too. */
  async settled(jobId: string, fence: number): Promise<void> {
    const held = this.#find(jobId, fence)
    if (!held || held.settled) return
    held.settled = true
    await this.#logShipped(held, SETTLED_LOG_WAIT_MS)
    if (held.closing || this.#leaving.signal.aborted || !held.settled) return
    const dropped = this.#context.shipper.unshippedBytes(jobId)
    if (dropped > 0) await this.#countDropped(jobId, dropped)
    await this.#close(held)
  }

  welcomed(welcome: Welcome): void {
    const stops: Promise<void>[] = []
    for (const { jobId, fence, verdict } of welcome.verdicts) {
      const held = this.#find(jobId, fence)
      // A later server's word that is not known here ends nothing.
      if (!held || (verdict !== 'stop' && verdict !== 'forget')) continue
      const done = verdict === 'stop' ? held.life.cancel() : this.#forget(jobId)
      if (verdict === 'stop') stops.push(done)
      this.#settleInBackground(done)
    }
    void Promise.allSettled(stops).then(() => this.#hearServer())
    for (const held of this.#held.values()) {
      held.settled = false
      held.life.tellState()
      if (held.life.record.finished) this.#settleInBackground(this.#deliver(held))
    }
  }

  /** Asked now and then: a report that the server did not settle is told again. */
  resend(): void {
    const before = this.#context.clock() - RESEND_MS
    for (const held of this.#held.values()) {
      if (held.settled || held.sentAt === undefined || held.sentAt > before) continue
      this.#send(held)
    }
  }

  /** Jobs go on; only this process lets go of them. */
  async leave(): Promise<void> {
    this.#leaving.abort()
    for (const { life } of this.#held.values()) life.leave()
    this.#hearServer()
    await Promise.allSettled([...this.#held.values()].map(({ lived }) => lived))
  }

  #hold(life: JobLife, accepted: Promise<void>, how: Recovery): void {
    const lived = accepted.then(() => life.live(how))
    const held: Held = { life, accepted, lived, sentAt: undefined, settled: false, closing: undefined }
    this.#held.set(life.record.jobId, held)
    this.#settleInBackground(lived.then(() => this.#deliver(held)))
  }

  /** A report follows its log, but does not wait for it for ever. */
  async #deliver(held: Held): Promise<void> {
    const { record } = held.life
    if (!record.finished || held.closing) return
    await this.#logShipped(held, LOG_WAIT_MS)
    if (!this.#leaving.signal.aborted) this.#send(held)
  }

  async #logShipped(held: Held, waitMs: number): Promise<void> {
    const waited = new AbortController()
    const stop = () => waited.abort()
    this.#leaving.signal.addEventListener('abort', stop)
    await Promise.race([this.#context.shipper.shipped(held.life.record.jobId), pause(waitMs, waited.signal)])
    this.#leaving.signal.removeEventListener('abort', stop)
    stop()
  }

  async #countDropped(jobId: string, bytes: number): Promise<void> {
    const { journal, state } = this.#context
    await journal.append({ type: 'dropped', total: state.dropped + bytes })
    await this.#events.raise('agent.dropped', jobId, { bytes })
  }

  #send(held: Held): void {
    const { finished } = held.life.record
    if (
      !finished ||
      held.closing ||
      !this.#context.send({ type: 'job.finished', ...held.life.id, report: finished })
    )
      return
    held.sentAt = this.#context.clock()
  }

  /** Never reported: the server has no use for it, or gave it to somebody else. */
  async #forget(jobId: string): Promise<void> {
    const held = this.#held.get(jobId)
    if (!held) return
    held.life.leave()
    await this.#close(held)
  }

  #close(held: Held): Promise<void> {
    held.closing ??= this.#clear(held)
    return held.closing
  }

  async #clear(held: Held): Promise<void> {
    const { shipper, journal } = this.#context
    const { id } = held.life
    // A start that is under way has to end first, or what it starts would stay.
    await held.lived
    shipper.remove(id.jobId)
    await this.#remove(id.jobId)
    this.#held.delete(id.jobId)
    journal.note({ type: 'closed', ...id })
  }

  async #remove(jobId: string): Promise<void> {
    try {
      await this.#context.runtime.remove(jobId)
    } catch (error) {
      this.#log.error({ err: error, jobId }, 'a job was not removed; the next start sweeps it')
    }
  }

  /** What was refused stays refused; under another fencing number it is a new question. */
  #refuse(refusal: Refusal, document: SignedDocument): void {
    const { jobId, fence, code, message } = refusal
    this.#log.warn({ jobId, fence, code }, `manifest refused: ${message}`)
    if (jobId === undefined) return
    this.#refused.delete(jobId)
    if (this.#refused.size >= KEPT_REFUSALS) this.#refused.delete(this.#refused.keys().next().value!)
    this.#refused.set(jobId, refusal)
    const { agentId, sign, clock, send } = this.#context
    const no: AgentVerdict = {
      agentId,
      jobId,
      fence,
      manifestDigest: documentDigest(document.text, sha256),
      answer: 'no',
      rule: code,
      reason: message.slice(0, 1000),
      until: null,
      at: new Date(clock()).toISOString(),
    }
    send({ type: 'job.refused', jobId, fence, code, message, verdict: sign('agent-verdict/1', no) })
  }

  #find(jobId: string, fence: number): Held | undefined {
    const held = this.#held.get(jobId)
    return held?.life.record.fence === fence ? held : undefined
  }

  #settleInBackground(work: Promise<void>): void {
    work.catch((error: unknown) => {
      if (!this.#leaving.signal.aborted) this.#context.onFatal(error)
    })
  }
}

/** Not started yet: it may have been canceled meanwhile. For one that was held the server's signed word stands until its time. */
function mustHearServer({ held, startBefore }: JobRecord, how: Recovery): boolean {
  return how.type === 'start' && (held === null || startBefore === null)
}

/** What has begun is watched to its end, though its manifest may be of a later version. */
function keptManifestOf({ document, startedAt, finished, jobId, fence }: JobRecord): JobManifest | undefined {
  const hasBegun = startedAt !== null || finished !== null
  const read = readManifest(document.text)
  return read ?? (hasBegun ? readStartedManifest(document.text, { jobId, fence }) : undefined)
}

const MAX_HOLD_MS = 7 * 86_400_000

/** No server can have a job wait for longer than a week. */
function latestStart({ startBefore }: StartPermit, { since }: { since: string }): string {
  return new Date(Math.min(Date.parse(startBefore), Date.parse(since) + MAX_HOLD_MS)).toISOString()
}
