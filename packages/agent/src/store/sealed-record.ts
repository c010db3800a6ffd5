import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { STORE_KINDS, type StoreKind } from './install-store.ts'
import { StoreError } from './store-error.ts'

/**
 * One file: magic, key id, length of the header, sealed header, sealed body. The header is sealed to the
 * place of the file and the body to its header, so neither can be moved to another name or version.
 */
const MAGIC = Buffer.from('TENONST1')
const KEY_ID_BYTES = 8
const NONCE_BYTES = 12
const TAG_BYTES = 16
const PREFIX_BYTES = MAGIC.length + KEY_ID_BYTES + 4
/** More than the header of the longest name needs; a reader of headers fetches this much of a file. */
export const HEADER_READ_BYTES = 8192
export const MAX_NAME_BYTES = 512

export const recordHeader = z.object({
  kind: z.enum(STORE_KINDS),
  name: z.string(),
  version: z.int(),
  at: z.string(),
  /** True: this version says that the name was removed. */
  removed: z.boolean(),
  /** Of the body; absent in records of an older store. */
  digest: z.string().exactOptional(),
})
export type RecordHeader = z.infer<typeof recordHeader>

/** Where a file lies, as far as the disk shows it. */
export interface RecordPlace {
  kindHash: string
  nameHash: string
  version: number
  removed: boolean
}

export interface StoreKeys {
  keyId: string
  seal: Uint8Array
  names: Uint8Array
}

export function deriveKeys(key: Uint8Array): StoreKeys {
  if (key.byteLength !== 32) throw new StoreError('key_malformed', 'The store key must have 32 bytes.')
  const derive = (purpose: string, bytes: number) =>
    new Uint8Array(hkdfSync('sha256', key, '', `tenon/install-store/${purpose}`, bytes))
  return {
    keyId: Buffer.from(derive('key-id', KEY_ID_BYTES)).toString('hex'),
    seal: derive('seal', 32),
    names: derive('names', 32),
  }
}

/** Names on disk are keyed hashes, so that a copy of the disk does not even tell what things are called. */
export function placeOf(
  keys: StoreKeys,
  kind: StoreKind,
  name: string,
): { kindHash: string; nameHash: string } {
  return { kindHash: hashName(keys, [kind]), nameHash: hashName(keys, [kind, name]) }
}

export function hashName(keys: StoreKeys, parts: readonly string[]): string {
  return createHmac('sha256', keys.names).update(JSON.stringify(parts)).digest('hex')
}

export function sealRecord(keys: StoreKeys, header: RecordHeader, body: Uint8Array): Buffer {
  const place = { ...placeOf(keys, header.kind, header.name), ...header }
  const sealedHeader = seal(keys, headerContext(keys, place), Buffer.from(JSON.stringify(header)))
  const prefix = Buffer.alloc(PREFIX_BYTES)
  MAGIC.copy(prefix)
  prefix.write(keys.keyId, MAGIC.length, 'hex')
  prefix.writeUInt32BE(sealedHeader.length, PREFIX_BYTES - 4)
  return Buffer.concat([prefix, sealedHeader, seal(keys, bodyContext(keys, header, sealedHeader), body)])
}

/** Undefined when the bytes are not what was sealed for this place. The bytes may end after the header. */
export function openHeader(keys: StoreKeys, place: RecordPlace, bytes: Buffer): RecordHeader | undefined {
  const sealed = sealedHeaderOf(keys, bytes)
  const plain = sealed && unseal(keys, headerContext(keys, place), sealed)
  return plain && (JSON.parse(plain.toString()) as RecordHeader)
}

export function openRecord(
  keys: StoreKeys,
  place: RecordPlace,
  bytes: Buffer,
): { header: RecordHeader; body: Uint8Array } | undefined {
  const header = openHeader(keys, place, bytes)
  const sealedHeader = sealedHeaderOf(keys, bytes)
  if (!header || !sealedHeader) return undefined
  const sealedBody = bytes.subarray(PREFIX_BYTES + sealedHeader.length)
  const body = unseal(keys, bodyContext(keys, header, sealedHeader), sealedBody)
  return body && { header, body: new Uint8Array(body) }
}

function sealedHeaderOf(keys: StoreKeys, bytes: Buffer): Buffer | undefined {
  if (bytes.length < PREFIX_BYTES || !bytes.subarray(0, MAGIC.length).equals(MAGIC)) return undefined
  if (bytes.subarray(MAGIC.length, PREFIX_BYTES - 4).toString('hex') !== keys.keyId) return undefined
  const length = bytes.readUInt32BE(PREFIX_BYTES - 4)
  const sealed = bytes.subarray(PREFIX_BYTES, PREFIX_BYTES + length)
  return sealed.length === length ? sealed : undefined
}

function headerContext(keys: StoreKeys, place: RecordPlace): Buffer {
  const { kindHash, nameHash, version, removed } = place
  return Buffer.from(JSON.stringify(['header', keys.keyId, kindHash, nameHash, version, removed]))
}

function bodyContext(keys: StoreKeys, header: RecordHeader, sealedHeader: Buffer): Buffer {
  const { kind, name, version, removed } = header
  const tag = sealedHeader.subarray(-TAG_BYTES).toString('hex')
  return Buffer.from(JSON.stringify(['body', keys.keyId, kind, name, version, removed, tag]))
}

function seal(keys: StoreKeys, context: Buffer, plain: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keys.seal, nonce).setAAD(context)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

function unseal(keys: StoreKeys, context: Buffer, sealed: Buffer): Buffer | undefined {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', keys.seal, nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(context).setAuthTag(sealed.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch {
    return undefined
  }
}
