import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { readStartedManifest } from '@tenon/protocol'
import { loadOrMakeKey, makeNextKey, readIdentity } from '../enrolment/identity.ts'
import { fingerprint, signerOf } from '../ground/crypto.ts'
import { AgentError } from '../ground/errors.ts'
import { folderHolder, lockFolder } from '../ground/folder-lock.ts'
import { heldState } from '../jobs/decisions.ts'
import { EventOutbox } from '../journal/event-outbox.ts'
import type { JournalEntry } from '../journal/journal-entry.ts'
import { applyEntry, emptyState, snapshotEntries } from '../journal/journal-state.ts'
import { Journal, readLines } from '../journal/journal.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { openInstallStore } from '../store/file-store.ts'
import type { InstallStore } from '../store/install-store.ts'
import { readStore } from '../store/read-store.ts'
import { loadStoreKey } from '../store/store-key.ts'
import { describeAgent } from './agent-status.ts'
import { readLastStart } from './last-start.ts'
import type { OwnerAccess } from './owner-access.ts'
import { listSecrets, noInstallStore, noSuchJob } from './secrets.ts'
import { pauseAgent, releaseAgent, resumeAgent, setSecretHere, type Switches } from './switches.ts'

export interface AgentFolder {
  dir: string
  storeKeyFile: string
  clock: () => number
  /** The runtime that the agent used last: its jobs go on while it is stopped. */
  runtime: (name: string) => Promise<Runtime | undefined>
}

/** What the owner may ask of a stopped agent, answered from its folder. Whatever changes something holds the folder meanwhile. */
export function createStoppedAccess(folder: AgentFolder): OwnerAccess {
  return {
    status: () => readStatus(folder),
    secrets: () => readSecrets(folder),
    setSecret: async (name, value) => {
      const key = await storeKeyOf(folder)
      return withJournal(folder, ({ events }) =>
        withStore(folder, key, (store) => setSecretHere(events, store, name, value)),
      )
    },
    stopJob: (jobId) => stopJob(folder, jobId),
    pause: () => withJournal(folder, pauseAgent),
    resume: () => withJournal(folder, resumeAgent),
    release: () => withJournal(folder, releaseAgent),
    rotateKey: () => makeKeyHere(folder),
  }
}

/** The next start of the agent has the server accept it. */
async function makeKeyHere({ dir }: AgentFolder) {
  await enrolled(dir)
  const { publicKey } = await holding(dir, () => makeNextKey(dir))
  return { key: fingerprint(publicKey), accepted: false }
}

/** Also of a folder that was restored and whose agent has not started yet. Needs no lock, so that asking never stands in the way of an agent that starts. */
async function readSecrets(folder: AgentFolder) {
  const isRestored = !(await readIdentity(folder.dir)) && existsSync(path.join(folder.dir, 'store'))
  const key = isRestored ? await loadStoreKey({ file: folder.storeKeyFile }) : await storeKeyOf(folder)
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
    identity: {
      ...identity,
      serverKeys: { pinned: new Map(Object.entries(identity.pinnedKeys)) },
      key: await loadOrMakeKey(dir),
    },
    state,
    start: await readLastStart(dir),
    pid: (await folderHolder(dir)) ?? null,
    live: undefined,
  })
}

/** On disk first, so that the next start of the agent reports it as what it is; then the runtime is asked. */
async function stopJob(folder: AgentFolder, jobId: string) {
  const stopped = await withJournal(folder, async ({ journal, state }) => {
    const record = state.jobs.get(jobId)
    if (!record) throw noSuchJob(jobId)
    if (!record.finished && !record.cancelRequested) {
      await journal.append({ type: 'cancel', jobId, fence: record.fence, by: 'customer' })
    }
    const grace = readStartedManifest(record.document.text, record).limits.graceSeconds
    return { state: heldState(record), grace }
  })
  const start = await readLastStart(folder.dir)
  if (stopped.state === 'running' && start) {
    const runtime = await folder.runtime(start.runtime.name)
    await runtime?.stop(jobId, stopped.grace, 'canceled')
  }
  return { jobId, state: stopped.state }
}

/** Events wait in the journal: the next start of the agent sends them. */
async function withJournal<T>(
  { dir, clock }: AgentFolder,
  act: (switches: Switches) => Promise<T>,
): Promise<T> {
  const { agentId } = await enrolled(dir)
  return holding(dir, async () => {
    const sign = signerOf(await loadOrMakeKey(dir))
    const state = emptyState()
    const journal = await Journal.open<JournalEntry>({
      file: path.join(dir, 'journal.jsonl'),
      apply: (entry) => applyEntry(state, entry),
      snapshot: () => snapshotEntries(state),
    })
    try {
      const events = new EventOutbox({ agentId, journal, state, sign, clock, send: () => false })
      return await act({ journal, state, events, clock })
    } finally {
      await journal.close()
    }
  })
}

async function withStore<T>(
  { dir }: AgentFolder,
  key: Uint8Array,
  act: (store: InstallStore) => Promise<T>,
): Promise<T> {
  const store = await openInstallStore({ dir: path.join(dir, 'store'), key })
  try {
    return await act(store)
  } finally {
    await store.close()
  }
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
