import { mkdir } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { PRODUCT_VERSION, type AgentFrame } from '@tenon/protocol'
import type { Logger } from 'pino'
import { createSecretSource } from './job-api/absent-secrets.ts'
import { createChannel, type Channel, type FinalReject } from './channel/channel.ts'
import type { HelloContent } from './channel/handshake.ts'
import { capacityOf, type AgentConfig } from './config.ts'
import { CredentialDesk } from './job-api/credentials.ts'
import { openEgress, type Egress } from './egress/settings.ts'
import { enrol } from './enrolment/enrol.ts'
import { AgentError, messageOf } from './ground/errors.ts'
import { signerOf } from './ground/crypto.ts'
import { describeRuntime } from './runtime/describe-runtime.ts'
import { EventOutbox } from './journal/event-outbox.ts'
import { Holds } from './jobs/hold.ts'
import { EXIT, exitCodeOf, type ExitCode } from './ground/exit-codes.ts'
import { lockFolder } from './ground/folder-lock.ts'
import { bootIdentity, loadOrMakeKey, saveIdentity, type Identity } from './enrolment/identity.ts'
import type { OwnCertificate } from './job-api/certificate.ts'
import { serveJobApi } from './job-api/server.ts'
import { prepareCertificate } from './job-api/tls.ts'
import { chooseFolder, makePrivateFolder, prepareSocket } from './job-api/socket-folder.ts'
import { createJobDesk } from './job-api/job-desk.ts'
import { readTokenFile } from './enrolment/join-token.ts'
import { JobRunner } from './jobs/runner.ts'
import { jobSpecSettings } from './jobs/spec.ts'
import type { Journal } from './journal/journal.ts'
import type { JournalEntry } from './journal/journal-entry.ts'
import type { JournalState } from './journal/journal-state.ts'
import { KeyRotation } from './enrolment/key-rotation.ts'
import { LogShipper } from './journal/log-shipper.ts'
import { openJournal } from './journal/open-journal.ts'
import { writeLastStart } from './owner/last-start.ts'
import { createRunningDesk, type RunningDeskContext } from './owner/running-desk.ts'
import { serveDesk } from './owner/serve-desk.ts'
import type { Runtime } from './runtime/runtime.ts'
import { Session } from './session.ts'
import { Slots } from './jobs/slots.ts'
import { bindStore } from './store/bind-store.ts'
import { openInstallStore } from './store/file-store.ts'
import type { InstallStore } from './store/install-store.ts'
import { openSealing } from './store/sealing.ts'
import { loadStoreKey } from './store/store-key.ts'

/** A journaled log offset is a hint; this far behind is near enough. */
const NOTE_LOG_EVERY_BYTES = 262_144

export interface AgentOptions {
  config: AgentConfig
  runtime: Runtime
  log: Logger
  clock?: () => number
  random?: () => number
}

export interface Agent {
  /** Resolves when the agent is set up and dials the server, or has failed; then `done` tells. */
  start(): Promise<void>
  /** Running jobs go on; a later start in the same folder picks them up. */
  stop(): Promise<void>
  /** Never rejects. */
  readonly done: Promise<ExitCode>
}

export function createAgent(options: AgentOptions): Agent {
  return new RunningAgent(options)
}

class RunningAgent implements Agent {
  readonly done: Promise<ExitCode>
  readonly #options: Required<AgentOptions>
  readonly #log: Logger
  readonly #stopping = new AbortController()
  /** Undone in reverse order. */
  readonly #cleanups: (() => Promise<void>)[] = []
  #resolveDone: (code: ExitCode) => void = () => undefined
  #starting: Promise<void> | undefined
  #ending: Promise<void> | undefined

  constructor(options: AgentOptions) {
    this.#options = { clock: Date.now, random: Math.random, ...options }
    this.#log = options.log
    this.done = new Promise((resolve) => (this.#resolveDone = resolve))
  }

  start(): Promise<void> {
    this.#starting ??= this.#setUp().catch((error: unknown) => this.#fail(error))
    return this.#starting
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#starting
    this.#end(EXIT.stopped)
    await this.#ending
  }

  async #setUp(): Promise<void> {
    const { config, runtime, clock } = this.#options
    await mkdir(config.dir, { recursive: true, mode: 0o700 })
    const lock = await lockFolder(config.dir)
    this.#cleanups.push(() => lock.release())
    const identity = (await bootIdentity(config.dir)) ?? (await this.#enrol())
    this.#log.info(
      { agentId: identity.agentId, role: identity.role, boot: identity.bootCounter },
      'agent starts',
    )
    const secrets = await this.#openStore(identity)
    const { journal, state } = await openJournal(config, clock, this.#log)
    this.#cleanups.push(() => journal.close())
    const socket = await prepareSocket(config.dir, os.tmpdir(), runtime.jobGroup)
    const secure = await this.#prepareSecureApi()
    const egress = await openEgress(config, this.#log)

    let channel: Channel | undefined
    const send = (frame: AgentFrame) => channel?.send(frame) ?? false
    const description = await describeRuntime(runtime, config, this.#log)
    const { confinement } = description
    const ground = { socket, secure, egress, confinement, store: secrets?.store }
    const parts = this.#assemble(identity, journal, state, ground, send, () => channel)
    const { runner, events, credentials } = parts
    this.#cleanups.push(
      () => runner.leave(),
      async () => credentials.close(),
    )
    await events.raise('agent.started', null, {
      version: PRODUCT_VERSION,
      bootCounter: identity.bootCounter,
      runtime: runtime.name,
    })
    await runner.recover()
    await this.#serveJobs(
      { ...parts, identity, journal, store: secrets?.store, send },
      { socket, secure, egress },
    )
    const session = new Session({
      ...parts,
      identity,
      journal,
      state,
      secrets,
      send,
      clock,
      log: this.#log,
      slots: config.slots,
      runtime: description,
      onFatal: (error) => this.#fail(error),
    })
    const recipient = secrets?.sealing.recipient ?? null
    const onRotated = () => channel?.redial()
    const rotation = new KeyRotation({
      ...parts,
      config,
      identity,
      recipient,
      onRotated,
      clock,
      log: this.#log,
    })
    this.#cleanups.push(() => rotation.close())
    const owned = { ...parts, identity, journal, state, session, rotation, store: secrets?.store }
    await this.#openDesk(owned, description)
    await rotation.start()
    channel = this.#openChannel(identity, session)
  }

  async #serveJobs(
    parts: {
      runner: JobRunner
      credentials: CredentialDesk
      identity: Identity
      journal: Journal<JournalEntry>
      store: InstallStore | undefined
      send: (frame: AgentFrame) => boolean
    },
    { socket, secure, egress }: { socket: string; secure: SecureApi | undefined; egress: Egress },
  ): Promise<void> {
    const { config, runtime, clock } = this.#options
    const { runner, store } = parts
    const desk = {
      ...parts,
      egress: egress.settings,
      config,
      secretOf: store && createSecretSource(store),
      stateLockHolder: (component: string) => runner.stateLockHolder(component),
      services: runtime.services,
      clock,
    }
    const api = await serveJobApi({
      socket,
      secure,
      jobGroup: runtime.jobGroup,
      authenticate: (token) => {
        const life = runner.authenticate(token)
        return life && createJobDesk(desk, life)
      },
      relay: egress.relay,
      log: this.#log,
    })
    this.#cleanups.push(() => api.close())
  }

  #assemble(
    identity: Identity,
    journal: Journal<JournalEntry>,
    state: JournalState,
    api: JobGround,
    send: (frame: AgentFrame) => boolean,
    channel: () => Channel | undefined,
  ) {
    const { config, runtime, clock } = this.#options
    const { agentId, serverId, role, installId, key } = identity
    const shipper = new LogShipper({
      runtime,
      link: {
        get isOpen() {
          return channel()?.isOpen ?? false
        },
        send,
        sendBulk: async (bytes) => channel()?.sendBulk(bytes),
      },
      maxBytesPerJob: config.maxLogBytes,
      onAck: (jobId, fence, acked, ended) => {
        const record = state.jobs.get(jobId)
        if (!record || (record.logEnded === ended && acked - record.logAcked < NOTE_LOG_EVERY_BYTES)) return
        journal.note({ type: 'log', jobId, fence, acked, ended })
      },
      log: this.#log,
    })
    const sign = signerOf(key)
    const events = new EventOutbox({ agentId, journal, state, sign, clock, send })
    const runner = new JobRunner({
      agentId,
      serverId,
      sign,
      journal,
      state,
      runtime,
      confinement: api.confinement,
      shipper,
      events,
      send,
      clock,
      target: { role, installId },
      keys: () => identity.keysAt(clock()),
      skewMs: config.clockSkewMs,
      slots: new Slots(capacityOf(config)),
      holds: new Holds(),
      spec: {
        ...jobSpecSettings(config, runtime.name),
        apiSocket: api.socket,
        egress: api.egress.settings,
        remoteApi: api.secure && { url: api.secure.url, ca: api.secure.certificate.cert },
      },
      store: api.store,
      givenKey: identity.journalKey,
      maxLogBytes: config.maxLogBytes,
      onFatal: (error) => this.#fail(error),
      log: this.#log,
    })
    return { shipper, events, runner, credentials: new CredentialDesk(send) }
  }

  /** On a cluster jobs see no socket: they come over TLS, to an address and a certificate that stay. */
  async #prepareSecureApi(): Promise<SecureApi | undefined> {
    const { config, clock } = this.#options
    if (config.kubernetes === undefined) return undefined
    const { api } = config.kubernetes
    const named = new URL(api.url).hostname.replaceAll(/^\[|\]$/g, '')
    return { ...api, certificate: await prepareCertificate(config.dir, named, clock()) }
  }

  /** Beside the folder of the job API, not in it: jobs are let into that one. */
  async #openDesk(
    parts: Omit<RunningDeskContext, 'start' | 'clock'>,
    runtime: HelloContent['runtime'],
  ): Promise<void> {
    const { config, clock } = this.#options
    const folder = chooseFolder(config.dir, os.tmpdir(), 'admin')
    await makePrivateFolder(folder)
    const socket = path.join(folder, 'admin.sock')
    const start = await writeLastStart(config, {
      socket,
      version: PRODUCT_VERSION,
      startedAt: new Date(clock()).toISOString(),
      runtime,
    })
    const desk = createRunningDesk({ ...parts, start, clock })
    const server = await serveDesk({ socket, desk, log: this.#log })
    this.#cleanups.push(() => server.close())
  }

  #openChannel(identity: Identity, session: Session): Channel {
    const { config, clock, random } = this.#options
    const channel = createChannel({
      serverUrl: config.serverUrl,
      agentId: identity.agentId,
      serverId: identity.serverId,
      bootCounter: identity.bootCounter,
      bootId: identity.bootId,
      sign: signerOf(identity.key),
      keys: () => identity.serverKeys,
      onKeys: (offered) => identity.learnKeys(offered, clock()),
      hello: () => session.hello(),
      heartbeat: () => session.heartbeat(),
      onWelcome: (welcome) => session.welcomed(welcome),
      onFrame: (frame) => session.received(frame),
      onDisconnect: () => session.disconnected(),
      proxy: config.proxy,
      log: this.#log,
      clock,
      random,
    })
    this.#cleanups.push(() => channel.stop())
    channel.ended.then(
      (rejected) => rejected && this.#rejected(rejected),
      (error: unknown) => this.#fail(error),
    )
    channel.start()
    return channel
  }

  async #enrol(): Promise<Identity> {
    const { config, random, clock } = this.#options
    const { joinToken, dir } = config
    if (!joinToken) {
      throw new AgentError(
        'not_enrolled',
        `The folder ${dir} holds no identity yet, and no join token was given.`,
        'Make a join token on the server and pass its file with --join-token-file.',
      )
    }
    const identity = await enrol({
      serverUrl: config.serverUrl,
      joinToken: 'value' in joinToken ? joinToken.value : await readTokenFile(joinToken.file),
      key: await loadOrMakeKey(dir),
      recipient: null,
      hostname: os.hostname().slice(0, 255),
      proxy: config.proxy,
      log: this.#log,
      random,
      clock,
      signal: this.#stopping.signal,
    })
    await saveIdentity(dir, identity)
    const booted = await bootIdentity(dir)
    if (!booted) throw new Error(`the identity just written to ${dir} is gone`)
    return booted
  }

  async #openStore(identity: Identity) {
    if (identity.role !== 'install') return undefined
    const { dir, storeKeyFile } = this.#options.config
    const key = await loadStoreKey({ file: storeKeyFile, create: true })
    const store = await openInstallStore({ dir: path.join(dir, 'store'), key })
    this.#cleanups.push(() => store.close())
    await bindStore(store, identity.installId)
    return { store, sealing: await openSealing(store) }
  }

  #rejected(code: FinalReject): void {
    this.#log.error({ code }, 'the server will not have this agent any more')
    this.#end(code === 'superseded' ? EXIT.superseded : EXIT.evicted)
  }

  #fail(error: unknown): void {
    if (this.#stopping.signal.aborted) return this.#end(EXIT.stopped)
    const coded = error instanceof AgentError ? { code: error.code, remedy: error.remedy } : {}
    this.#log.fatal({ err: error, ...coded }, `the agent ends: ${messageOf(error)}`)
    this.#end(exitCodeOf(error))
  }

  #end(code: ExitCode): void {
    this.#ending ??= this.#cleanUp().then(() => this.#resolveDone(code))
  }

  async #cleanUp(): Promise<void> {
    this.#stopping.abort()
    for (const cleanup of this.#cleanups.splice(0).toReversed()) {
      await cleanup().catch((error: unknown) => this.#log.warn({ err: error }, 'a part did not end well'))
    }
  }
}

/** What jobs stand on. */
interface JobGround {
  socket: string
  secure: SecureApi | undefined
  egress: Egress
  confinement: string
  store: InstallStore | undefined
}

interface SecureApi {
  url: string
  host: string
  port: number
  certificate: OwnCertificate
}
