import type { IdKind } from '@tenon/core'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Config } from './config.ts'
import type { BlobStore } from './ground/blobs.ts'
import type { Followers } from './ground/followers.ts'
import type { Hub } from './ground/hub.ts'
import type { KeyRing } from './ground/key-ring.ts'
import type { Refusals } from './ground/refusals.ts'
import type { Slots } from './ground/slots.ts'
import type { VendorRegistry } from './ground/vendor-registry.ts'
import type { Db } from './store/database.ts'

/** Everything an operation may use. Made once at start, passed down, never a global. */
export interface Context {
  config: Config
  db: Db
  pool: pg.Pool
  hub: Hub
  slots: Slots
  refusals: Refusals
  followers: Followers
  keys: KeyRing
  blobs: BlobStore
  registry: VendorRegistry
  serverId: string
  processId: string
  log: Logger
  /** Milliseconds since the epoch. */
  now(): number
  newId(kind: IdKind): string
}

export function isoNow(context: Pick<Context, 'now'>, plusSeconds = 0): string {
  return new Date(context.now() + plusSeconds * 1000).toISOString()
}
