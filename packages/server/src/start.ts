import { makeId } from '@tenon/core'
import { PRODUCT_VERSION } from '@tenon/protocol'
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import { followInstalls } from './agents/follow-installs.ts'
import { forgetOtherProcesses } from './agents/processes.ts'
import { createHttp } from './api/http.ts'
import { publishPlugins } from './artifacts/publish-plugins.ts'
import { redeemRegistryLogin } from './artifacts/registry-logins.ts'
import { redeemOneTimeToken } from './artifacts/registry-tokens.ts'
import { createRegistryWatch, type RegistryWatch } from './artifacts/registry-watch.ts'
import { openVendorRegistry, type RegistryHooks } from './artifacts/registry.ts'
import { createRefusals, writeRefusals } from './audit/refusals.ts'
import { followBuildJobs } from './builds/follow-jobs.ts'
import { Sessions } from './channel/sessions.ts'
import { createUpgrader } from './channel/upgrade.ts'
import type { Config } from './config.ts'
import type { Context } from './context.ts'
import { StartError } from './errors.ts'
import { createFileBlobs } from './ground/blobs.ts'
import type { Followers } from './ground/followers.ts'
import { createHub } from './ground/hub.ts'
import { followRuns } from './installs/lifecycle.ts'
import { ensureLeaseWatch } from './jobs/leases.ts'
import { createSlots } from './jobs/slots.ts'
import { ensureIdentity } from './keys/identity.ts'
import { loadKeyRing } from './keys/key-ring.ts'
import { startLoops } from './loops.ts'
import { ensureOwner } from './people/owner-token.ts'
import { startEmbeddedPostgres } from './postgres/embedded-postgres.ts'
import { followStepJobs } from './runs/follow-jobs.ts'
import { scheduleOfInstalls, rescheduleActions } from './schedules/follow.ts'
import { secretsOfInstalls } from './secrets/follow.ts'
import { openDb, openPool } from './store/database.ts'
import { migrate } from './store/migrate.ts'
import { migrations } from './store/migrations/index.ts'
import { namedStatements } from './store/statements.ts'

/** A database that takes longer for `select 1` is as good as away. */
const READY_MS = 2_000
/**
 * Connections that may wait to be accepted; 4096 is also what Linux grants at most unless told otherwise. With Node's
 * 511 a fleet that comes back together overflows it, and whoever is dropped there tries again only after seconds.
 */
const BACKLOG = 4096

export interface Server {
  url: string
  context: Context
  /** Only of the process that made it, on the first start of a tenant: the owner's token. It is in the data folder too. */
  ownerToken: string | undefined
  stop(): Promise<void>
}

/** Which room hears of what in which other, to its left. */
const FOLLOWERS: Followers = {
  jobs: { step: followStepJobs, build: followBuildJobs },
  runs: followRuns,
  installs: [followInstalls, secretsOfInstalls, scheduleOfInstalls],
  apps: rescheduleActions,
}

/** Everything up, in the order it is needed; on a failure everything down again. */
export async function startServer(config: Config, log: Logger): Promise<Server> {
  const undo: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const step of undo.splice(0).toReversed())
      await step().catch((error: unknown) => log.warn({ err: error }, 'a part did not stop cleanly'))
    log.info({ statements: namedStatements() }, 'the server has stopped')
  }
  try {
    return await bringUp(config, log, undo, stop)
  } catch (error) {
    await stop()
    throw error
  }
}

async function bringUp(
  config: Config,
  log: Logger,
  undo: (() => Promise<unknown>)[],
  stop: () => Promise<void>,
): Promise<Server> {
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  const databaseUrl = config.databaseUrl ?? (await ownPostgres(config, log, undo))
  const onBroken = (error: Error) => log.warn({ err: error }, 'a database connection broke')
  await migrateFirst(databaseUrl, onBroken)
  const pool = openPool(databaseUrl, config.poolSize, config.databaseSilenceSeconds * 1000, onBroken)
  undo.push(() => pool.end())
  const db = openDb(pool)
  const now = () => Date.now()
  const serverId = await ensureIdentity(db, config.masterKey, now())
  await ensureLeaseWatch(db, now())
  const processId = makeId('process', now(), randomBytes(10))
  const hub = createHub(
    pool,
    () => new pg.Client({ connectionString: databaseUrl, application_name: 'tenon-hints' }),
    processId,
    log,
  )
  undo.push(() => hub.close())
  const context: Context = {
    config,
    db,
    pool,
    hub,
    slots: createSlots(),
    followers: FOLLOWERS,
    refusals: createRefusals(),
    keys: await loadKeyRing(db, config.masterKey),
    blobs: createFileBlobs(join(config.dataDir, 'blobs')),
    registry: await openVendorRegistry({ ...config, now, log, db, hooks: registryHooks(() => context) }),
    serverId,
    processId,
    log: log.child({ serverId, processId }),
    now,
    newId: (kind) => makeId(kind, now(), randomBytes(10)),
  }
  hub.start()
  await publishPlugins(context)
  const ownerToken = await ensureOwner(context)
  const url = await listen(context, undo)
  log.info({ url, serverId, processId, version: PRODUCT_VERSION }, 'the server is ready')
  return { url, context, ownerToken, stop }
}

/** The registry is part of the context that it asks. */
function registryHooks(context: () => Context): RegistryHooks {
  let watching: RegistryWatch | undefined
  const watch = () => (watching ??= createRegistryWatch(context()))
  return {
    isLive: (subject) => watch().isLive(subject),
    refused: (event) => watch().refused(event),
    redeem: async (credential) =>
      (await redeemOneTimeToken(context(), credential)) ?? redeemRegistryLogin(context(), credential),
  }
}

/** Over a connection of its own: a migration may be silent for as long as it needs. */
export async function migrateFirst(databaseUrl: string, onBroken: (error: Error) => void): Promise<void> {
  const pool = openPool(databaseUrl, 1, 0, onBroken)
  try {
    await migrate(pool, migrations)
  } finally {
    await pool.end()
  }
}

async function ownPostgres(config: Config, log: Logger, undo: (() => Promise<unknown>)[]): Promise<string> {
  const postgres = await startEmbeddedPostgres({
    dataDir: join(config.dataDir, 'postgres'),
    port: config.postgresPort,
    log: log.child({ part: 'postgres' }),
  })
  undo.push(() => postgres.stop())
  return postgres.url
}

async function listen(context: Context, undo: (() => Promise<unknown>)[]): Promise<string> {
  const { config, log } = context
  const sessions = new Sessions(context)
  const upgrader = createUpgrader(context, sessions)
  // What is missed here, the poll does.
  const onKeys = async () => context.keys.reload().then(() => sessions.announceKeys())
  const offKeys = context.hub.on('keys', () => void onKeys().catch(() => undefined))
  undo.push(async () => offKeys())
  const http = await createHttp(context, async () => {
    const asked = context.pool.query('select 1').then(
      () => true,
      () => false,
    )
    const late = new AbortController()
    const tooLate = delay(READY_MS, false, { signal: late.signal, ref: false }).catch(() => false)
    return Promise.race([asked, tooLate]).finally(() => late.abort())
  })
  http.server.on('upgrade', (request, socket, head) => upgrader.handle(request, socket, head))
  // A PostgreSQL of its own is locked to one process: no agent can be connected to another one.
  if (config.databaseUrl === undefined) await forgetOtherProcesses(context)
  undo.push(() => writeRefusals(context, true))
  const loops = startLoops(context, sessions)
  undo.push(() => loops.stop())
  undo.push(async () => {
    await sessions.close()
    await upgrader.close()
    http.server.closeAllConnections()
    await http.close()
  })
  try {
    const address = await http.listen({ host: config.host, port: config.port, backlog: BACKLOG })
    return config.publicUrl ?? address
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw cause
    log.debug({ err: cause }, 'the port is taken')
    throw new StartError(
      'port_in_use',
      `port ${config.port} on ${config.host} is in use`,
      'Stop what uses it, or choose another with TENON_PORT.',
      cause,
    )
  }
}
