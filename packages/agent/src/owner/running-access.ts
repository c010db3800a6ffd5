import type { Identity } from '../enrolment/identity.ts'
import type { KeyRotation } from '../enrolment/key-rotation.ts'
import type { JobRunner } from '../jobs/runner.ts'
import type { EventOutbox } from '../journal/event-outbox.ts'
import type { JournalEntry } from '../journal/journal-entry.ts'
import type { JournalState } from '../journal/journal-state.ts'
import type { Journal } from '../journal/journal.ts'
import type { LogShipper } from '../journal/log-shipper.ts'
import type { InstallStore } from '../store/install-store.ts'
import { describeAgent } from './agent-status.ts'
import type { LastStart } from './last-start.ts'
import type { OwnerAccess } from './owner-access.ts'
import { listSecrets, noInstallStore, noSuchJob } from './secrets.ts'
import { pauseAgent, releaseAgent, resumeAgent, setSecretHere } from './switches.ts'

export interface RunningAccessContext {
  identity: Identity
  start: LastStart
  journal: Journal<JournalEntry>
  state: JournalState
  events: EventOutbox
  runner: JobRunner
  shipper: LogShipper
  session: { readonly connectedSince: string | null }
  rotation: KeyRotation
  /** Install agents only. */
  store: InstallStore | undefined
  clock: () => number
}

/** What the owner may ask, answered inside the running agent. */
export function createRunningAccess(context: RunningAccessContext): OwnerAccess {
  const { identity, start, journal, state, events, runner, shipper, session, rotation, clock } = context
  const store = () => {
    if (!context.store) throw noInstallStore(identity.role)
    return context.store
  }
  const switches = { journal, state, events, clock }
  return {
    status: async () =>
      describeAgent({
        identity,
        state,
        start,
        pid: process.pid,
        live: {
          connectedSince: session.connectedSince,
          slots: { used: runner.running, total: runner.slots },
          logBytes: shipper.unacknowledgedBytes,
        },
      }),
    secrets: async () => listSecrets(store()),
    setSecret: async (name, value) => setSecretHere(events, store(), name, value),
    async stopJob(jobId) {
      const held = await runner.stopHere(jobId)
      if (!held) throw noSuchJob(jobId)
      return { jobId, state: held.state }
    },
    pause: () => pauseAgent(switches),
    async resume() {
      const now = await resumeAgent(switches)
      runner.allow()
      return now
    },
    release: () => releaseAgent(switches),
    rotateKey: () => rotation.rotate(),
  }
}
