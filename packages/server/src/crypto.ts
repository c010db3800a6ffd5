import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign as signWith,
  timingSafeEqual,
  verify as verifyWith,
  type KeyObject,
} from 'node:crypto'
import { promisify } from 'node:util'
import type { Sha256, Verify } from '@tenon/core'
import { joinTokenSeed } from '@tenon/protocol'

const verifyOnThread = promisify(verifyWith)

export const sha256: Sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

export interface SigningKey {
  publicKey: string
  sign(bytes: Uint8Array): string
  /** PKCS#8, for sealing only. */
  exportPrivate(): Buffer
}

export function generateSigningKey(): SigningKey {
  return signingKey(generateKeyPairSync('ed25519').privateKey)
}

export function importSigningKey(pkcs8: Buffer): SigningKey {
  return signingKey(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }))
}

const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** The key pair that a join token's secret makes; nothing else is signed with it than an enrolment. */
export function joinTokenKey(secret: string): SigningKey {
  return importSigningKey(Buffer.concat([PKCS8_PREFIX, Buffer.from(joinTokenSeed(secret, sha256), 'hex')]))
}

function signingKey(key: KeyObject): SigningKey {
  return {
    publicKey: createPublicKey(key).export({ format: 'der', type: 'spki' }).toString('base64'),
    sign: (bytes) => signWith(null, bytes, key).toString('base64'),
    exportPrivate: () => key.export({ format: 'der', type: 'pkcs8' }),
  }
}

/** False for anything that is not a valid Ed25519 signature by that key; never throws on what came from outside. */
export const verify: Verify = (publicKey, bytes, signature) => {
  try {
    const key = publicKeyOf(publicKey)
    return key !== undefined && verifyWith(null, bytes, key, Buffer.from(signature, 'base64'))
  } catch {
    return false
  }
}

/** As `verify`, on another thread: for many at once, while the event loop has other work. */
export async function verifyApart(publicKey: string, bytes: Uint8Array, signature: string): Promise<boolean> {
  try {
    const key = publicKeyOf(publicKey)
    return key !== undefined && (await verifyOnThread(null, bytes, key, Buffer.from(signature, 'base64')))
  } catch {
    return false
  }
}

/** Those of busy agents; few, since each takes memory. */
const KEPT_KEYS = 500
const keptKeys = new Map<string, KeyObject>()

function publicKeyOf(publicKey: string): KeyObject | undefined {
  const kept = keptKeys.get(publicKey)
  if (kept) return kept
  const key = readPublicKey(publicKey)
  if (!key) return undefined
  if (keptKeys.size >= KEPT_KEYS) keptKeys.delete(keptKeys.keys().next().value!)
  keptKeys.set(publicKey, key)
  return key
}

/** How the SPKI of every Ed25519 key begins (RFC 8410); the 32 bytes of the key follow. */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')
const KEY_BYTES = 32

/**
 * The bytes are handed over as a JWK: OpenSSL's own reading of an SPKI takes ten times as long, as much as the
 * verification after it, and every agent's key is read when a fleet comes back.
 */
function readPublicKey(publicKey: string): KeyObject | undefined {
  const spki = Buffer.from(publicKey, 'base64')
  const prefix = spki.subarray(0, SPKI_PREFIX.length)
  if (spki.length !== SPKI_PREFIX.length + KEY_BYTES || !prefix.equals(SPKI_PREFIX)) return undefined
  const x = spki.subarray(SPKI_PREFIX.length).toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}

export function isEd25519PublicKey(publicKey: string): boolean {
  return readPublicKey(publicKey) !== undefined
}

export function fingerprint(publicKey: string): string {
  return sha256(Buffer.from(publicKey, 'base64'))
}

/** Secrets are compared by the hashes that are stored, in constant time. */
export function secretMatches(secret: string, storedHash: string): boolean {
  const given = Buffer.from(hashSecret(secret), 'hex')
  const stored = Buffer.from(storedHash, 'hex')
  return given.length === stored.length && timingSafeEqual(given, stored)
}

/** For random secrets of 256 bits a plain hash is enough: there is nothing to guess. */
export function hashSecret(secret: string): string {
  return sha256(Buffer.from(secret))
}

export function randomSecret(): string {
  return randomBytes(32).toString('base64url')
}

export function seal(masterKey: Uint8Array, plain: Buffer): Buffer {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', masterKey, iv)
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

export function unseal(masterKey: Uint8Array, sealed: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', masterKey, sealed.subarray(0, 12))
  decipher.setAuthTag(sealed.subarray(-16))
  return Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()])
}
