import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { AgentError } from '../errors.ts'
import { folderHolder, lockFolder } from '../folder-lock.ts'
import { readIdentity } from '../identity.ts'
import { heldState, parseManifest } from '../job-decisions.ts'
import { Journal, readLines } from '../journal.ts'
import {
  applyEntry,
  emptyState,
  snapshotEntries,
  type JournalEntry,
  type JournalState,
} from '../journal-state.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { openInstallStore } from '../store/file-store.ts'
import type { InstallStore } from '../store/install-store.ts'
import { readStore } from '../store/read-store.ts'
import { setSecret } from '../store/sealing.ts'
import { loadStoreKey } from '../store/store-key.ts'
import { describeAgent } from './agent-status.ts'
import type { OwnerDesk } from './desk.ts'
import { readLastStart } from './last-start.ts'
import { listSecrets, noInstallStore, noSuchJob } from './secrets.ts'

export interface AgentFolder {
  dir: string
  storeKeyFile: string
  clock: () => number
  /** The runtime that the agent used last: its jobs go on while it is stopped. */
  runtime: (name: string) => Runtime | undefined
}

/** The owner's desk on a stopped agent's folder. Whatever changes something holds the folder meanwhile. */
export function createStoppedDesk(folder: AgentFolder): OwnerDesk {
  const turn = (since: (state: JournalState) => string | null) =>
    withJournal(folder, async (journal, state) => {
      const pausedSince = since(state)
      await journal.append({ type: 'paused', since: pausedSince })
      return { pausedSince }
    })
  return {
    status: () => readStatus(folder),
    secrets: () => readSecrets(folder),
    setSecret: (name, value) => withStore(folder, (store) => setSecret(store, name, value)),
    stopJob: (jobId) => stopJob(folder, jobId),
    pause: () => turn((state) => state.paused ?? new Date(folder.clock()).toISOString()),
    resume: () => turn(() => null),
  }
}

/** Needs no lock, so that asking never stands in the way of an agent that starts. */
async function readSecrets(folder: AgentFolder) {
  const key = await storeKeyOf(folder)
  return readStore({ dir: path.join(folder.dir, 'store'), key, read: listSecrets })
}

async function storeKeyOf(folder: AgentFolder): Promise<Uint8Array> {
  const { role } = await enrolled(folder.dir)
  if (role !== 'install') throw noInstallStore(role)
  return loadStoreKey({ file: folder.storeKeyFile })
}

async function readStatus({ dir }: AgentFolder) {
  const identity = await enrolled(dir)
  const state = emptyState()
  const journal = await readFile(path.join(dir, 'journal.jsonl')).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return Buffer.alloc(0)
    throw error
  })
  for (const entry of readLines<JournalEntry>(journal).entries) applyEntry(state, entry)
  return describeAgent({
    identity: { ...identity, pinnedKeys: new Map(Object.entries(identity.pinnedKeys)) },
    state,
    start: await readLastStart(dir),
    pid: (await folderHolder(dir)) ?? null,
    live: undefined,
  })
}

/** On disk first, so that the next start of the agent reports it as what it is; then the runtime is asked. */
async function stopJob(folder: AgentFolder, jobId: string) {
  const stopped = await withJournal(folder, async (journal, state) => {
    const record = state.jobs.get(jobId)
    if (!record) throw noSuchJob(jobId)
    if (!record.finished && !record.cancelRequested) {
      await journal.append({ type: 'cancel', jobId, fence: record.fence, by: 'customer' })
    }
    const grace = parseManifest(JSON.parse(record.document.text))?.limits.graceSeconds ?? 0
    return { state: heldState(record), grace }
  })
  const start = await readLastStart(folder.dir)
  if (stopped.state === 'running' && start) {
    await folder.runtime(start.runtime.name)?.stop(jobId, stopped.grace, 'canceled')
  }
  return { jobId, state: stopped.state }
}

async function withJournal<T>(
  { dir }: AgentFolder,
  act: (journal: Journal<JournalEntry>, state: JournalState) => Promise<T>,
): Promise<T> {
  await enrolled(dir)
  return holding(dir, async () => {
    const state = emptyState()
    const journal = await Journal.open<JournalEntry>({
      file: path.join(dir, 'journal.jsonl'),
      apply: (entry) => applyEntry(state, entry),
      snapshot: () => snapshotEntries(state),
    })
    try {
      return await act(journal, state)
    } finally {
      await journal.close()
    }
  })
}

async function withStore<T>(folder: AgentFolder, act: (store: InstallStore) => Promise<T>): Promise<T> {
  const key = await storeKeyOf(folder)
  return holding(folder.dir, async () => {
    const store = await openInstallStore({ dir: path.join(folder.dir, 'store'), key })
    try {
      return await act(store)
    } finally {
      await store.close()
    }
  })
}

async function holding<T>(dir: string, act: () => Promise<T>): Promise<T> {
  const lock = await lockFolder(dir, 'command')
  try {
    return await act()
  } finally {
    await lock.release()
  }
}

async function enrolled(dir: string) {
  const identity = await readIdentity(dir)
  if (identity) return identity
  throw new AgentError(
    'not_enrolled',
    `The folder ${dir} holds no agent.`,
    'Name the folder of the agent with --dir, or start the agent there first.',
  )
}
