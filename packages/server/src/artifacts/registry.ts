import { ANNOTATIONS, parseClosure } from '@tenon/core'
import {
  authorizeWith,
  createClosures,
  createFileStorage,
  createRegistryHandler,
  createSourceLimit,
  createTokenIssuer,
  isDigest,
  type Digest,
  type OciManifest,
  type Redeem,
  type RegistryEvent,
} from '@tenon/oci'
import { hkdfSync } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { VendorRegistry } from '../ground/vendor-registry.ts'
import type { Db } from '../store/database.ts'
import { createRegistryStore } from './registry-store.ts'
import { withVersionTags } from './registry-tags.ts'

/** What the registry asks and tells while it serves. */
export interface RegistryHooks {
  isLive(subject: string): Promise<boolean>
  refused(event: Extract<RegistryEvent, { type: 'access.refused' }>): Promise<void>
  redeem: Redeem
}

/** More only makes each slower: a release to thousands of installs must leave room for the rest of the server. */
const BLOBS_AT_ONCE = 128

/** A list that cannot be read names nothing; whoever syncs such an artifact refuses it. */
export const closureImages = (manifest: OciManifest): Digest[] =>
  (parseClosure(manifest.annotations?.[ANNOTATIONS.closure]) ?? []).flatMap(({ digest }) =>
    isDigest(digest) ? [digest] : [],
  )

export async function openVendorRegistry(options: {
  dataDir: string
  masterKey: Uint8Array
  publicUrl: string | undefined
  now: () => number
  log: Logger
  db: Db
  hooks: RegistryHooks
}): Promise<VendorRegistry> {
  const { now, hooks, publicUrl } = options
  const storage = await createFileStorage(join(options.dataDir, 'registry'))
  const secret = new Uint8Array(
    hkdfSync('sha256', options.masterKey, new Uint8Array(0), 'tenon vendor registry tokens', 32),
  )
  const issuer = createTokenIssuer(secret)
  const log = options.log.child({ part: 'registry' })

  const closures = createClosures({ storage, named: closureImages, now })

  return {
    ...createRegistryStore(storage),
    storage,
    handler: createRegistryHandler({
      storage: { ...storage, ...withVersionTags(storage, options.db) },
      authorize: authorizeWith(issuer, now, { closures, isLive: hooks.isLive }),
      redeem: hooks.redeem,
      limit: createSourceLimit({ concurrent: BLOBS_AT_ONCE }),
      onEvent: (event) => {
        if (event.type !== 'access.refused') return
        hooks.refused(event).catch((error: unknown) => log.error({ err: error }, 'a refusal is not audited'))
      },
      ...(publicUrl === undefined ? {} : { realm: new URL('/v2/token', publicUrl).href }),
      log: (record) =>
        log[record.level === 'error' ? 'error' : 'debug']({ ...record, err: record.error }, record.message),
    }),
    issueToken: (grant, ttlSeconds, nowMs) => issuer.issue(grant, ttlSeconds, nowMs),
  }
}
