import { SERVER_CHAIN } from '@tenon/core'
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Context } from '../context.ts'
import { hashSecret } from '../crypto.ts'
import { lockTenant } from '../store/locks.ts'
import { transact, type Ground } from '../store/transaction.ts'
import { createToken } from './tokens.ts'

export function ownerTokenFile(dataDir: string): string {
  return join(dataDir, 'owner.token')
}

type Tenant = Ground & Pick<Context, 'newId' | 'serverId'> & { config: { dataDir: string } }

/** One process makes it, once. Whatever an earlier start did not come to is completed, or done anew. */
export async function ensureOwner(tenant: Tenant): Promise<string | undefined> {
  await settleDraft(tenant)
  const secret = await transact(tenant, async (tx) => {
    await lockTenant(tx)
    const any = await tx.db.selectFrom('api_token').select('id').limit(1).executeTakeFirst()
    if (any) return undefined
    const made = await createToken(
      tenant,
      tx,
      { name: 'owner', role: 'owner', expiresInSeconds: null },
      server(tenant),
    )
    writeDraft(tenant.config.dataDir, made.secret)
    return made.secret
  })
  if (secret !== undefined) await settleDraft(tenant)
  return secret
}

/** One more owner's token for whoever holds the server's machine; every other stays what it is. */
export async function addRecoveredOwner(tenant: Tenant): Promise<string> {
  await settleDraft(tenant)
  const id = await transact(tenant, async (tx) => {
    await lockTenant(tx)
    const wanted = { name: 'recovered owner', role: 'owner' as const, expiresInSeconds: null }
    const { token, secret } = await createToken(tenant, tx, wanted, server(tenant))
    tx.audit(SERVER_CHAIN, {
      actor: server(tenant),
      action: 'owner.recovered',
      subject: { type: 'token', id: token.id },
      outcome: 'ok',
      manifestDigest: null,
      details: {},
    })
    writeDraft(tenant.config.dataDir, secret)
    return token.id
  })
  await settleDraft(tenant)
  return id
}

function server(tenant: Tenant) {
  return { type: 'server' as const, id: tenant.serverId }
}

/** A token is on the disk before the database knows it, and under its name only once the database does. */
async function settleDraft(tenant: Tenant): Promise<void> {
  const file = ownerTokenFile(tenant.config.dataDir)
  await transact(tenant, async (tx) => {
    await lockTenant(tx)
    const secret = readDraft(tenant.config.dataDir)
    if (secret === undefined) return
    const known = await tx.db
      .selectFrom('api_token')
      .select('id')
      .where('secret_hash', '=', hashSecret(secret))
      .executeTakeFirst()
    if (known) renameSync(draftOf(file), file)
    else rmSync(draftOf(file))
  })
}

function draftOf(file: string): string {
  return `${file}.draft`
}

function readDraft(dataDir: string): string | undefined {
  try {
    return readFileSync(draftOf(ownerTokenFile(dataDir)), 'utf8').trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function writeDraft(dataDir: string, secret: string): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const draft = draftOf(ownerTokenFile(dataDir))
  rmSync(draft, { force: true })
  writeFileSync(draft, `${secret}\n`, { flag: 'wx', mode: 0o600, flush: true })
  // The name of a file is on the disk with its folder.
  const folder = openSync(dataDir, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
