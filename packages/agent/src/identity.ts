import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { AGENT_ROLES, type AgentRole } from '@tenon/core'
import { z } from 'zod'
import { loadSigningKey, makeSigningKey, type SigningKey } from './crypto.ts'
import { readIfThere, replaceFile } from './durable-file.ts'
import { AgentError } from './errors.ts'

const stored = z.object({
  version: z.literal(1),
  agentId: z.string(),
  serverId: z.string(),
  role: z.enum(AGENT_ROLES),
  installId: z.string().nullable(),
  pinnedKeys: z.record(z.string(), z.string()),
  bootCounter: z.int().nonnegative(),
})
type StoredIdentity = z.infer<typeof stored>

/** Who this agent is. Its private key never leaves the folder it was made in. */
export interface Identity {
  readonly agentId: string
  readonly serverId: string
  readonly role: AgentRole
  readonly installId: string | null
  readonly bootCounter: number
  /** Random, made at each start: tells a reconnect from a copy with the same counter. */
  readonly bootId: string
  readonly key: SigningKey
  readonly pinnedKeys: ReadonlyMap<string, string>
  /** On disk before it counts. */
  pin(keys: ReadonlyMap<string, string>): Promise<void>
}

/** What the folder says about its agent; nothing is changed by asking. */
export async function readIdentity(dir: string): Promise<StoredIdentity | undefined> {
  const file = path.join(dir, 'identity.json')
  const text = await readIfThere(file)
  if (text === undefined) return undefined
  try {
    return stored.parse(JSON.parse(text))
  } catch (error) {
    throw broken(file, error)
  }
}

export type NewIdentity = Omit<StoredIdentity, 'version' | 'bootCounter'>

/** Made before enrolment, so that a second try after a crash shows the same key. */
export async function loadOrMakeKey(dir: string): Promise<SigningKey> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const file = path.join(dir, 'agent.key')
  const pem = await readIfThere(file)
  if (pem !== undefined) {
    try {
      return loadSigningKey(pem)
    } catch (error) {
      throw broken(file, error)
    }
  }
  const key = makeSigningKey()
  await replaceFile(file, key.toPem())
  return key
}

export async function saveIdentity(dir: string, identity: NewIdentity): Promise<void> {
  await write(dir, { version: 1, ...identity, bootCounter: 0 })
}

/** Raises the boot counter on disk: the server tells two copies of one identity apart by it. */
export async function bootIdentity(dir: string): Promise<Identity | undefined> {
  const before = await readIdentity(dir)
  if (!before) return undefined
  const key = await loadOrMakeKey(dir)
  const current = { ...before, bootCounter: before.bootCounter + 1 }
  await write(dir, current)
  return new FileIdentity(dir, key, current)
}

class FileIdentity implements Identity {
  readonly key: SigningKey
  readonly bootId = randomBytes(18).toString('base64url')
  readonly #dir: string
  #stored: StoredIdentity
  #writing: Promise<void> = Promise.resolve()

  constructor(dir: string, key: SigningKey, identity: StoredIdentity) {
    this.#dir = dir
    this.key = key
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
  get pinnedKeys(): ReadonlyMap<string, string> {
    return new Map(Object.entries(this.#stored.pinnedKeys))
  }

  pin(keys: ReadonlyMap<string, string>): Promise<void> {
    const pinned = this.#writing.then(async () => {
      const pinnedKeys = { ...this.#stored.pinnedKeys, ...Object.fromEntries(keys) }
      const next = { ...this.#stored, pinnedKeys }
      await write(this.#dir, next)
      this.#stored = next
    })
    this.#writing = pinned.catch(() => undefined)
    return pinned
  }
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
