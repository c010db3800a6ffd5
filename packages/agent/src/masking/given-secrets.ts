import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { SigningKey } from '../ground/crypto.ts'
import { formsOf } from './forms.ts'
import { Mask } from './mask.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** The key under which the journal remembers what jobs were given; it comes from the agent's own. */
export function givenSecretsKey(key: SigningKey): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key.toPem(), '', 'tenon/given-secrets', 32))
}

/**
 * What one job was given, so that it can be masked wherever the job prints it. Kept as values, not as names: a
 * secret that is changed while the job runs has two values, and a bearer is in no store.
 */
export class GivenSecrets {
  readonly #key: Uint8Array
  readonly #values = new Set<string>()
  #mask: Mask | undefined

  /** `sealed`: what the job's record holds of an earlier life of the agent. */
  constructor(key: Uint8Array, sealed: Iterable<string>) {
    this.#key = key
    for (const each of sealed) for (const value of unseal(key, each)) this.#values.add(value)
  }

  get mask(): Mask {
    this.#mask ??= new Mask([...this.#values].flatMap(formsOf))
    return this.#mask
  }

  /** From now on they are masked; what it returns has to be on disk before the job gets them. */
  add(values: readonly string[]): string | undefined {
    const fresh = values.filter((value) => value !== '' && !this.#values.has(value))
    if (fresh.length === 0) return undefined
    for (const value of fresh) this.#values.add(value)
    this.#mask = undefined
    return seal(this.#key, fresh)
  }
}

/** Pure: the texts of a JSON value by which it would be recognized. */
export function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value === 'number') return [String(value)]
  if (typeof value !== 'object' || value === null) return []
  return [JSON.stringify(value), ...Object.values(value).flatMap(textsOf)]
}

function seal(key: Uint8Array, values: readonly string[]): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  const sealed = Buffer.concat([cipher.update(JSON.stringify(values)), cipher.final()])
  return Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64')
}

function unseal(key: Uint8Array, text: string): string[] {
  const bytes = Buffer.from(text, 'base64')
  const nonce = bytes.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  const plain = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  return JSON.parse(plain.toString('utf8')) as string[]
}
