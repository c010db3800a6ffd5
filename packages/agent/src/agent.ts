import { mkdir } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { PRODUCT_VERSION, type AgentFrame } from '@tenon/protocol'
import type { Logger } from 'pino'
import { assemble } from './assemble.ts'
import { createChannel, type Channel, type FinalReject } from './channel/channel.ts'
import type { AgentConfig } from './config.ts'
import { openEgress } from './egress/settings.ts'
import { firstIdentity } from './enrolment/first-identity.ts'
import { bootIdentity, type Identity } from './enrolment/identity.ts'
import { KeyRotation } from './enrolment/key-rotation.ts'
import { signerOf } from './ground/crypto.ts'
import { AgentError, messageOf } from './ground/errors.ts'
import { EXIT, exitCodeOf, type ExitCode } from './ground/exit-codes.ts'
import { lockFolder } from './ground/folder-lock.ts'
import { prepareSecureApi, serveJobs } from './job-api/serve-jobs.ts'
import { prepareSocket } from './job-api/socket-folder.ts'
import { openJournal } from './journal/open-journal.ts'
import { openAdminSocket } from './owner/open-admin-socket.ts'
import { describeRuntime } from './runtime/describe-runtime.ts'
import type { Runtime } from './runtime/runtime.ts'
import { Session } from './session.ts'
import { bindStore } from './store/bind-store.ts'
import { openInstallStore } from './store/file-store.ts'
import { openSealing } from './store/sealing.ts'
import { loadStoreKey } from './store/store-key.ts'

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
    const log = this.#log
    const ground = await this.#openGround()
    const { identity, journal, state, secrets, doors, description } = ground
    let channel: Channel | undefined
    const send = (frame: AgentFrame) => channel?.send(frame) ?? false
    const onFatal = (error: unknown) => this.#fail(error)
    const parts = assemble({
      config,
      runtime,
      identity,
      journal,
      state,
      api: { ...doors, confinement: description.confinement, store: secrets?.store },
      send,
      channel: () => channel,
      onFatal,
      clock,
      log,
    })
    const { runner, events, credentials } = parts
    this.#cleanups.push(
      () => runner.leave(),
      async () => credentials.close(),
    )
    const { bootCounter } = identity
    await events.raise('agent.started', null, {
      version: PRODUCT_VERSION,
      bootCounter,
      runtime: runtime.name,
    })
    await runner.recover()
    const own = { ...parts, identity, journal, state, store: secrets?.store, send, clock, log }
    const api = await serveJobs({ ...own, config, runtime }, doors)
    this.#cleanups.push(() => api.close())
    const session = new Session({ ...own, secrets, slots: config.slots, runtime: description, onFatal })
    const recipient = secrets?.sealing.recipient ?? null
    const rotation = new KeyRotation({ ...own, config, recipient, onRotated: () => channel?.redial() })
    this.#cleanups.push(() => rotation.close())
    const admin = await openAdminSocket(config, { ...own, session, rotation }, { runtime: description, log })
    this.#cleanups.push(() => admin.close())
    await rotation.start()
    channel = this.#openChannel(identity, session)
  }

  /** All that lies on disk, and where jobs will reach this agent. */
  async #openGround() {
    const { config, runtime, clock } = this.#options
    await mkdir(config.dir, { recursive: true, mode: 0o700 })
    const lock = await lockFolder(config.dir)
    this.#cleanups.push(() => lock.release())
    const identity = (await bootIdentity(config.dir)) ?? (await this.#enrol())
    const { agentId, role, bootCounter: boot } = identity
    this.#log.info({ agentId, role, boot }, 'agent starts')
    const secrets = await this.#openStore(identity)
    const { journal, state } = await openJournal(config, clock, this.#log)
    this.#cleanups.push(() => journal.close())
    const socket = await prepareSocket(config.dir, os.tmpdir(), runtime.traits.jobGroup)
    const secure = await prepareSecureApi(config, runtime.traits, clock())
    const egress = await openEgress(config, this.#log)
    const description = await describeRuntime(runtime, config, this.#log)
    return { identity, secrets, journal, state, doors: { socket, secure, egress }, description }
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

  #enrol(): Promise<Identity> {
    const { config, random, clock } = this.#options
    return firstIdentity(config, { random, clock, log: this.#log, signal: this.#stopping.signal })
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
