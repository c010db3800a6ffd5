import type { AgentFrame } from '@tenon/protocol'
import type { Logger } from 'pino'
import type { Channel } from './channel/channel.ts'
import { capacityOf, type AgentConfig } from './config.ts'
import type { Identity } from './enrolment/identity.ts'
import { signerOf } from './ground/crypto.ts'
import { CredentialRequests } from './job-api/credential-requests.ts'
import type { JobDoors } from './job-api/serve-jobs.ts'
import { Holds } from './jobs/hold.ts'
import { JobRunner } from './jobs/runner.ts'
import { Slots } from './jobs/slots.ts'
import { jobSpecSettings } from './jobs/spec.ts'
import { EventOutbox } from './journal/event-outbox.ts'
import type { JournalEntry } from './journal/journal-entry.ts'
import type { JournalState } from './journal/journal-state.ts'
import type { Journal } from './journal/journal.ts'
import { LogShipper } from './journal/log-shipper.ts'
import type { Runtime } from './runtime/runtime.ts'
import type { InstallStore } from './store/install-store.ts'

/** A journaled log offset is a hint; this far behind is near enough. */
const NOTE_LOG_EVERY_BYTES = 262_144

export interface AgentGround {
  config: AgentConfig
  runtime: Runtime
  identity: Identity
  journal: Journal<JournalEntry>
  state: JournalState
  api: JobDoors & { confinement: string; store: InstallStore | undefined }
  send: (frame: AgentFrame) => boolean
  /** There is none before the agent dials. */
  channel: () => Channel | undefined
  onFatal: (error: unknown) => void
  clock: () => number
  log: Logger
}

/** What an agent does its work with, made of what it stands on. */
export function assemble(ground: AgentGround) {
  const { config, runtime, clock, identity, journal, state, api, send, channel, onFatal, log } = ground
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
    log,
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
      ...jobSpecSettings(config, runtime.traits),
      apiSocket: api.socket,
      egress: api.egress.settings,
      remoteApi: api.secure && { url: api.secure.url, ca: api.secure.certificate.cert },
    },
    store: api.store,
    givenKey: identity.journalKey,
    maxLogBytes: config.maxLogBytes,
    onFatal,
    log,
  })
  return { shipper, events, runner, credentials: new CredentialRequests(send) }
}
