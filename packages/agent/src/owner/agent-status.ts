import type { AgentRole, KnownKeys } from '@tenon/core'
import { readManifest } from '@tenon/protocol'
import { fingerprint } from '../ground/crypto.ts'
import { heldState } from '../jobs/decisions.ts'
import type { JobRecord, JournalState } from '../journal/journal-state.ts'
import type { LastStart } from './last-start.ts'
import type { AgentStatus } from './owner-access.ts'

export interface StatusFacts {
  identity: {
    agentId: string
    serverId: string
    role: AgentRole
    installId: string | null
    serverKeys: Pick<KnownKeys, 'pinned'>
    key: { publicKey: string }
  }
  state: JournalState
  start: LastStart | undefined
  pid: number | null
  /** Undefined when only the files could be asked. */
  live:
    | { connectedSince: string | null; slots: { used: number; total: number }; logBytes: number }
    | undefined
}

/** Pure: what the owner wants to know, in one value. */
export function describeAgent({ identity, state, start, pid, live }: StatusFacts): AgentStatus {
  const jobs = [...state.jobs.values()]
  return {
    running: pid !== null,
    pid,
    version: start?.version ?? null,
    startedAt: start?.startedAt ?? null,
    agentId: identity.agentId,
    role: identity.role,
    installId: identity.installId,
    key: fingerprint(identity.key.publicKey),
    server: { id: identity.serverId, url: start?.serverUrl ?? null },
    connectedSince: live?.connectedSince ?? null,
    pausedSince: state.paused,
    slots: live?.slots ?? null,
    jobs: jobs.map(describeJob),
    outbox: {
      events: state.events.size,
      results: jobs.filter((job) => job.finished).length,
      logBytes: live?.logBytes ?? null,
      droppedBytes: state.dropped,
    },
    auditHead: state.head,
    runtime: start?.runtime ?? null,
    pinnedKeys: [...identity.serverKeys.pinned].map(([keyId, key]) => ({
      keyId,
      fingerprint: fingerprint(key),
    })),
  }
}

function describeJob(record: JobRecord): AgentStatus['jobs'][number] {
  const manifest = readManifest(record.document.text)
  return {
    jobId: record.jobId,
    kind: manifest?.kind ?? null,
    component: manifest?.operations.find(({ component }) => component !== null)?.component ?? null,
    state: heldState(record),
    startedAt: record.startedAt,
    stopping: record.cancelRequested && !record.finished,
  }
}
