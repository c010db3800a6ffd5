import { pino } from 'pino'
import { byCaller, type Caller } from '../packages/server/src/people/actor.ts'
import { createBuilds } from '../packages/server/src/builds/create.ts'
import { createRun } from '../packages/server/src/runs/create.ts'
import { readConfig, startServer, type Server } from '../packages/server/src/index.ts'
import type { TakenSlots } from '../packages/server/src/ground/slots.ts'
import { transact } from '../packages/server/src/store/transaction.ts'
import { monotonicMs, serveCommands } from './child.ts'
import { collectedMemory } from './memory.ts'
import { profileHandlers } from './profile.ts'

/** The server as it is, and beside it what a bench must ask from inside: its memory, and when a commit was answered. */
const config = readConfig(process.env, '.')
const log = pino({ level: config.logLevel }, pino.destination({ fd: 2, sync: true }))
const caller: Caller = {
  principal: { id: 'bench', kind: 'service', name: 'bench' },
  tokenId: 'bench',
  tokenName: 'bench',
  grant: { role: 'owner', scope: 'all' },
}
const stamps: { pool: string; at: number }[] = []
let server: Server | undefined

export type ServerCommands = typeof handlers
const handlers = {
  ...profileHandlers,
  async start() {
    server = await startServer(config, log)
    const at = monotonicMs()
    const { serverId, pool } = server.context
    const databaseUrl = pool.options.connectionString!
    return { url: server.url, serverId, databaseUrl, at, ownerToken: server.ownerToken }
  },
  /** Whether jobs went into the queue or to their agents at once: both are told as soon as the commit was answered. */
  watchPools(pools: string[]) {
    const { hub, slots } = running().context
    for (const pool of pools) hub.on(`pool:${pool}`, () => stamps.push({ pool, at: monotonicMs() }))
    const watched = new Set(pools)
    const open = slots.open.bind(slots)
    slots.open = () => stamped(open(), watched)
  },
  stamps: () => stamps.splice(0),
  memory: () => collectedMemory(),
  async queueBuilds({
    app,
    component,
    count,
  }: {
    app: { id: string; name: string }
    component: string
    count: number
  }) {
    const wanted = { name: component, source: `sha256:${'5'.repeat(64)}` }
    for (let left = count; left > 0; left -= 100)
      await createBuilds(
        running().context,
        app,
        Array<typeof wanted>(Math.min(100, left)).fill(wanted),
        caller,
      )
  },
  async queueRuns({ installs, each }: { installs: string[]; each: number }) {
    const { context } = running()
    const rows = await context.db.selectFrom('install').selectAll().where('id', 'in', installs).execute()
    for (let round = 0; round < each; round++) {
      await Promise.all(
        rows.map((install) =>
          transact(context, (tx) =>
            createRun(context, tx, {
              install,
              decide: (app) => ({ kind: 'deploy', components: app.components.map((c) => c.name) }),
              by: byCaller(caller),
            }),
          ),
        ),
      )
    }
  },
}

/** Stamps before the frames go out. */
function stamped(taking: TakenSlots, pools: ReadonlySet<string>): TakenSlots {
  const taken: string[] = []
  return {
    ...taking,
    take(pool, kind, job) {
      const agentId = taking.take(pool, kind, job)
      if (agentId !== undefined && pools.has(pool)) taken.push(pool)
      return agentId
    },
    committed() {
      const at = monotonicMs()
      for (const pool of taken) stamps.push({ pool, at })
      taking.committed()
    },
  }
}

function running(): Server {
  if (!server) throw new Error('not started')
  return server
}

serveCommands(handlers, async () => server?.stop())
