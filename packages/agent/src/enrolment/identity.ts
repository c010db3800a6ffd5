import { randomBytes } from 'node:crypto'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { AGENT_ROLES, learnKeys, usableKeys, type AgentRole, type KeyLink, type KnownKeys } from '@tenon/core'
import { z } from 'zod'
import { loadSigningKey, makeSigningKey, verify, type SigningKey } from '../ground/crypto.ts'
import { readIfThere, replaceFile, syncFolder } from '../ground/durable-file.ts'
import { AgentError } from '../ground/errors.ts'
import { givenSecretsKey } from '../masking/given-secrets.ts'

const KEY = 'agent.key'
const NEXT_KEY = 'agent.key.next'
const JOURNAL_KEY = 'journal.key'

export const storedIdentity = z.object({
  version: z.literal(1),
  agentId: z.string(),
  serverId: z.string(),
  role: z.enum(AGENT_ROLES),
  installId: z.string().nullable(),
  pinnedKeys: z.record(z.string(), z.string()),
  /** When each of the server's keys ended that did, by key id. */
  endedKeys: z.record(z.string(), z.string()).optional(),
  bootCounter: z.int().nonnegative(),
})
type StoredIdentity = z.infer<typeof storedIdentity>

/** Who this agent is. Its private key never leaves the folder it was made in. */
export interface Identity {
  readonly agentId: string
  readonly serverId: string
  readonly role: AgentRole
  readonly installId: string | null
  readonly bootCounter: number
  /** Random, made at each start: tells a reconnect from a copy with the same counter. */
  readonly bootId: string
  /** Signs with the key that counts at that moment. */
  readonly key: SigningKey
  /** The key that follows, from when it is made until the server has accepted it. */
  readonly nextKey: SigningKey | undefined
  /** Seals what the journal remembers of given secrets; stays when the agent's key changes. */
  readonly journalKey: Uint8Array
  /** All that is kept of the server's keys. */
  readonly serverKeys: KnownKeys
  /** The server's keys whose word counts at that moment. */
  keysAt(nowMs: number): ReadonlyMap<string, string>
  /** What a pinned key says of others; true when something was new, which is then on disk. */
  learnKeys(offered: readonly KeyLink[], nowMs: number): Promise<boolean>
  /** On disk before anybody hears of it; one that is there already stays. */
  makeNextKey(): Promise<SigningKey>
  /** From now on this, the next key, is the key. */
  takeNextKey(accepted: SigningKey): Promise<void>
  /** When the key was made. */
  keyMadeAt(): Promise<number>
}

/** What the folder says about its agent; nothing is changed by asking. */
export async function readIdentity(dir: string): Promise<StoredIdentity | undefined> {
  const file = path.join(dir, 'identity.json')
  const text = await readIfThere(file)
  if (text === undefined) return undefined
  try {
    return storedIdentity.parse(JSON.parse(text))
  } catch (error) {
    throw broken(file, error)
  }
}

export type NewIdentity = Omit<StoredIdentity, 'version' | 'bootCounter'>

/** Made before enrolment, so that a second try after a crash shows the same key. */
export async function loadOrMakeKey(dir: string): Promise<SigningKey> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  return (await loadKey(dir, KEY)) ?? makeKey(dir, KEY)
}

export function loadNextKey(dir: string): Promise<SigningKey | undefined> {
  return loadKey(dir, NEXT_KEY)
}

/** What the journal is sealed with is kept first: it comes from the key that is about to go. */
export async function makeNextKey(dir: string): Promise<SigningKey> {
  const journalKey = await loadJournalKey(dir, await loadOrMakeKey(dir))
  await replaceFile(path.join(dir, JOURNAL_KEY), Buffer.from(journalKey).toString('base64'))
  return (await loadNextKey(dir)) ?? makeKey(dir, NEXT_KEY)
}

async function loadKey(dir: string, name: string): Promise<SigningKey | undefined> {
  const file = path.join(dir, name)
  const pem = await readIfThere(file)
  try {
    return pem === undefined ? undefined : loadSigningKey(pem)
  } catch (error) {
    throw broken(file, error)
  }
}

async function makeKey(dir: string, name: string): Promise<SigningKey> {
  const key = makeSigningKey()
  await replaceFile(path.join(dir, name), key.toPem())
  return key
}

/** Of the agent's first key, also after that one is gone. */
async function loadJournalKey(dir: string, key: SigningKey): Promise<Uint8Array> {
  const kept = await readIfThere(path.join(dir, JOURNAL_KEY))
  return kept === undefined ? givenSecretsKey(key) : new Uint8Array(Buffer.from(kept, 'base64'))
}

export async function saveIdentity(dir: string, identity: NewIdentity): Promise<void> {
  await write(dir, { version: 1, ...identity, bootCounter: 0 })
}

/** Raises the boot counter on disk: the server tells two copies of one identity apart by it. */
export async function bootIdentity(dir: string): Promise<Identity | undefined> {
  const before = await readIdentity(dir)
  if (!before) return undefined
  const keys = { now: await loadOrMakeKey(dir), next: await loadNextKey(dir) }
  const current = { ...before, bootCounter: before.bootCounter + 1 }
  await write(dir, current)
  return new FileIdentity(dir, keys, await loadJournalKey(dir, keys.now), current)
}

class FileIdentity implements Identity {
  readonly key: SigningKey
  readonly journalKey: Uint8Array
  readonly bootId = randomBytes(18).toString('base64url')
  readonly #dir: string
  readonly #keys: Keys
  #stored: StoredIdentity
  #making: Promise<SigningKey> | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(dir: string, keys: Keys, journalKey: Uint8Array, identity: StoredIdentity) {
    this.#dir = dir
    this.#keys = keys
    this.journalKey = journalKey
    this.key = {
      get publicKey() {
        return keys.now.publicKey
      },
      sign: (bytes) => keys.now.sign(bytes),
      toPem: () => keys.now.toPem(),
    }
    this.#stored = identity
  }

  get agentId(): string {
    return this.#stored.agentId
  }
  get serverId(): string {
    return this.#stored.serverId
  }
  get role(): AgentRole {
    return this.#stored.role
  }
  get installId(): string | null {
    return this.#stored.installId
  }
  get bootCounter(): number {
    return this.#stored.bootCounter
  }
  get serverKeys(): KnownKeys {
    const { pinnedKeys, endedKeys = {} } = this.#stored
    return { pinned: new Map(Object.entries(pinnedKeys)), ended: new Map(Object.entries(endedKeys)) }
  }

  keysAt(nowMs: number): ReadonlyMap<string, string> {
    return usableKeys(this.serverKeys, nowMs)
  }

  /** Holds at once: a manifest signed by a new key may be the next frame. On disk when it resolves. */
  async learnKeys(offered: readonly KeyLink[], nowMs: number): Promise<boolean> {
    const before = this.serverKeys
    const { pinned, ended } = learnKeys(before, offered, verify, nowMs)
    if (isSame(before.pinned, pinned) && isSame(before.ended, ended)) return false
    const [pinnedKeys, endedKeys] = [Object.fromEntries(pinned), Object.fromEntries(ended)]
    this.#stored = { ...this.#stored, pinnedKeys, endedKeys }
    const kept = this.#writing.then(() => write(this.#dir, this.#stored))
    this.#writing = kept.catch(() => undefined)
    await kept
    return true
  }

  get nextKey(): SigningKey | undefined {
    return this.#keys.next
  }

  /** One at a time: of two that made one each, the server might accept the one that is not on disk. */
  async makeNextKey(): Promise<SigningKey> {
    this.#making ??= this.#makeNextKey().finally(() => (this.#making = undefined))
    return this.#making
  }

  async #makeNextKey(): Promise<SigningKey> {
    return (this.#keys.next ??= await makeNextKey(this.#dir))
  }

  /** The very key that was accepted, whatever the file of the next one holds. */
  async takeNextKey(accepted: SigningKey): Promise<void> {
    const [file, nextFile] = [path.join(this.#dir, KEY), path.join(this.#dir, NEXT_KEY)]
    const isOnDisk = (await loadNextKey(this.#dir))?.publicKey === accepted.publicKey
    if (isOnDisk) await rename(nextFile, file)
    else await replaceFile(file, accepted.toPem())
    this.#keys.now = accepted
    await rm(nextFile, { force: true })
    await syncFolder(this.#dir)
    this.#keys.next = undefined
  }

  async keyMadeAt(): Promise<number> {
    return (await stat(path.join(this.#dir, KEY))).mtimeMs
  }
}

interface Keys {
  now: SigningKey
  next: SigningKey | undefined
}

function isSame(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return one.size === other.size && [...one].every(([name, value]) => other.get(name) === value)
}

async function write(dir: string, identity: StoredIdentity): Promise<void> {
  await replaceFile(path.join(dir, 'identity.json'), `${JSON.stringify(identity, null, 2)}\n`)
}

function broken(file: string, cause: unknown): AgentError {
  return new AgentError(
    'identity_broken',
    `The file ${file} cannot be read as this agent's identity.`,
    'Restore the folder from a backup, or empty it and enrol again with a new join token.',
    { cause },
  )
}
