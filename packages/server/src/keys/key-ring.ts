import { keyStatement, makeId, signKeyEnd, type KeyLink } from '@tenon/core'
import type { Selectable } from 'kysely'
import { randomBytes } from 'node:crypto'
import { generateSigningKey, importSigningKey, seal, unseal, type SigningKey } from '../crypto.ts'
import { StartError } from '../errors.ts'
import type { KeyRing } from '../ground/key-ring.ts'
import type { Db } from '../store/database.ts'
import type { Database } from '../store/schema.ts'

export async function loadKeyRing(db: Db, masterKey: Uint8Array): Promise<KeyRing> {
  let links: KeyLink[] = []
  let current: { keyId: string; key: SigningKey } | undefined
  const linkOf = new Map<string, KeyLink>()
  async function reload(): Promise<void> {
    const rows = await db.selectFrom('server_key').selectAll().orderBy('created_at').orderBy('id').execute()
    links = rows.map((row) => {
      const link = linkOf.get(row.id) ?? makeLink(masterKey, row)
      linkOf.set(row.id, link)
      return link
    })
    // The end of the chain, not the latest clock: two processes may disagree about the time.
    const newest = rows.find((row) => !rows.some((other) => other.signed_by === row.id))
    if (!newest || newest.id === current?.keyId) return
    current = { keyId: newest.id, key: openKey(masterKey, newest.private_key_sealed) }
  }
  await reload()
  return {
    current() {
      if (!current) throw new Error('the server has no signing key')
      return current
    },
    links: () => links,
    reload,
  }
}

/** The end of the key before is said anew at each start: of a rotation by an older server nothing else would say it. */
function makeLink(masterKey: Uint8Array, row: Selectable<Database['server_key']>): KeyLink {
  const { id: keyId, public_key: publicKey, signed_by: signedBy, signature, created_at: at } = row
  const link = { keyId, publicKey, signedBy, signature }
  if (signedBy === null) return link
  const { sign } = openKey(masterKey, row.private_key_sealed)
  return { ...link, previousEnd: signKeyEnd({ keyId: signedBy, by: keyId, at }, sign) }
}

/** A row for a new key; vouched for by the current one unless it is the first. */
export function newKeyRow(
  masterKey: Uint8Array,
  nowMs: number,
  voucher: { keyId: string; key: SigningKey } | undefined,
) {
  const key = generateSigningKey()
  const id = makeId('key', nowMs, randomBytes(10))
  return {
    id,
    public_key: key.publicKey,
    private_key_sealed: seal(masterKey, key.exportPrivate()),
    signed_by: voucher?.keyId ?? null,
    signature: voucher ? voucher.key.sign(keyStatement({ keyId: id, publicKey: key.publicKey })) : null,
    created_at: new Date(nowMs).toISOString(),
  }
}

function openKey(masterKey: Uint8Array, sealed: Buffer): SigningKey {
  try {
    return importSigningKey(unseal(masterKey, sealed))
  } catch (cause) {
    throw new StartError(
      'wrong_master_key',
      'the signing key in the database cannot be opened with this master key',
      'Give every server process of this tenant the same TENON_MASTER_KEY_FILE; restore it from your backup if it was lost.',
      cause,
    )
  }
}
