import { makeId } from '@tenon/core'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Config } from './config.ts'
import { StartError } from './errors.ts'
import { createSlots } from './jobs/slots.ts'
import { findIdentity } from './keys/identity.ts'
import { loadKeyRing } from './keys/key-ring.ts'
import { addRecoveredOwner, ownerTokenFile } from './people/owner-token.ts'
import { reachEmbeddedPostgres } from './postgres/reach.ts'
import { migrateFirst } from './start.ts'
import { openDb, openPool } from './store/database.ts'

/**
 * The way back for an owner who has no token: whoever holds database and master key holds the tenant anyway. A server
 * may run meanwhile.
 */
export async function recoverOwner(config: Config, log: Logger): Promise<{ tokenId: string; file: string }> {
  const undo: (() => Promise<unknown>)[] = []
  const onBroken = (error: Error) => log.warn({ err: error }, 'a database connection broke')
  try {
    const databaseUrl = config.databaseUrl ?? (await embedded(config, log, undo))
    await migrateFirst(databaseUrl, onBroken)
    const pool = openPool(databaseUrl, 2, config.databaseSilenceSeconds * 1000, onBroken)
    undo.push(() => pool.end())
    const db = openDb(pool)
    const serverId = await findIdentity(db)
    if (serverId === undefined)
      throw new StartError(
        'no_tenant',
        'no server has started on this database yet',
        'Start it: `tenon server start`. Its first start makes the owner’s token.',
      )
    // Opens the signing key, which is the proof that this is the tenant's own master key.
    await loadKeyRing(db, config.masterKey)
    const now = () => Date.now()
    const tokenId = await addRecoveredOwner({
      config,
      pool,
      log,
      now,
      slots: createSlots(),
      // Nobody waits for news of it.
      hub: { nudge: () => undefined },
      serverId,
      newId: (kind) => makeId(kind, now(), randomBytes(10)),
    })
    return { tokenId, file: ownerTokenFile(config.dataDir) }
  } finally {
    for (const step of undo.toReversed()) await step()
  }
}

async function embedded(config: Config, log: Logger, undo: (() => Promise<unknown>)[]): Promise<string> {
  const postgres = await reachEmbeddedPostgres({
    dataDir: join(config.dataDir, 'postgres'),
    port: config.postgresPort,
    log,
  })
  undo.push(() => postgres.stop())
  return postgres.url
}
