import { createClient, type Client } from '@tenon/protocol'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { BareCommands } from './bare-program.ts'
import { startChild, type Child } from './child.ts'
import type { ServerFacts } from './lean-agent.ts'
import type { ServerCommands } from './server-program.ts'
import type { SwarmCommands } from './swarm-program.ts'

/** As `config.ts` of the server has it. */
const DEFAULT_POOL = 20

export interface BenchServer {
  child: Child<ServerCommands>
  facts: ServerFacts
  /** When it began to listen, on the clock of `monotonicMs`. */
  listeningAt: number
}

/** Every process that a bench uses, with all files under one folder. */
export interface World {
  dist: string
  dir: string
  /** Connections of the current server to its database. */
  poolSize: number
  /** Where profiles of what is measured go. */
  profileDir: string | undefined
  /** The current server. */
  server: BenchServer
  databaseUrl: string
  client: Client
  db: pg.Pool
  startSwarm(): Child<SwarmCommands>
  startBare(): Child<BareCommands>
  /** A new process on the same data and the same port. */
  restartServer(how: 'SIGKILL' | 'stop', awayMs: number, poolSize?: number): Promise<void>
  onClose(undo: () => Promise<unknown>): void
  close(): Promise<void>
}

export async function openWorld(dist: string, dir: string, profileDir: string | undefined): Promise<World> {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const undo: (() => Promise<unknown>)[] = []
  const launch = <H extends ServerCommands | SwarmCommands | BareCommands>(
    name: string,
    env: Record<string, string>,
    execArgv: string[],
  ) => {
    const logFile = join(dir, `${name}.log`)
    const child = startChild<H>({ bundle: join(dist, `bench/${name}.mjs`), logFile, env, execArgv })
    undo.push(() => child.stop())
    return child
  }
  const startServer = async (port: number, poolSize: number) => {
    const child = launch<ServerCommands>('server-program', serverEnvironment(dist, dir, port, poolSize), [
      '--expose-gc',
    ])
    return { child, started: await child.call('start') }
  }
  try {
    const { child, started } = await startServer(0, DEFAULT_POOL)
    const db = connectTo(started.databaseUrl)
    undo.push(() => world.db.end())
    await requireDurable(db)
    const { url, serverId } = started
    const facts = { url, serverId, keys: await readKeys(db) }
    const world: World = {
      dist,
      dir,
      poolSize: DEFAULT_POOL,
      profileDir,
      server: { child, facts, listeningAt: started.at },
      databaseUrl: started.databaseUrl,
      client: createClient({ url, token: started.ownerToken! }),
      db,
      startSwarm: () => launch<SwarmCommands>('swarm-program', {}, ['--max-semi-space-size=32']),
      startBare: () => launch<BareCommands>('bare-program', {}, ['--expose-gc']),
      async restartServer(how, awayMs, poolSize = world.poolSize) {
        if (how === 'stop') await world.server.child.stop()
        else await world.server.child.kill(how)
        await new Promise((resolve) => setTimeout(resolve, awayMs))
        const next = await startServer(Number(new URL(url).port), poolSize)
        world.poolSize = poolSize
        world.server = { child: next.child, facts, listeningAt: next.started.at }
        world.databaseUrl = next.started.databaseUrl
        // The database comes back on another port.
        await world.db.end()
        world.db = connectTo(world.databaseUrl)
      },
      onClose: (step) => void undo.push(step),
      close: () => undoAll(undo),
    }
    return world
  } catch (error) {
    await undoAll(undo)
    throw error
  }
}

function connectTo(url: string): pg.Pool {
  const db = new pg.Pool({ connectionString: url, max: 4 })
  db.on('error', () => undefined)
  return db
}

async function readKeys(db: pg.Pool): Promise<ServerFacts['keys']> {
  const { rows } = await db.query<{ id: string; public_key: string }>('select id, public_key from server_key')
  return new Map(rows.map((row) => [row.id, row.public_key]))
}

async function undoAll(undo: (() => Promise<unknown>)[]): Promise<void> {
  for (const step of undo.splice(0).toReversed()) await step()
}

function serverEnvironment(
  dist: string,
  dir: string,
  port: number,
  poolSize: number,
): Record<string, string> {
  return {
    TENON_DATA_DIR: join(dir, 'server'),
    TENON_PORT: String(port),
    TENON_POOL_SIZE: String(poolSize),
    TENON_PLUGINS_DIR: join(dist, 'plugins'),
    TENON_RATE_LIMIT_PER_MINUTE: '1000000',
    TENON_LOG_LEVEL: 'warn',
  }
}

/** Nothing that is measured here counts when a commit may be lost. */
async function requireDurable(db: pg.Pool): Promise<void> {
  for (const name of ['fsync', 'synchronous_commit', 'full_page_writes']) {
    const { rows } = await db.query<Record<string, string>>(`show ${name}`)
    if (rows[0]?.[name] !== 'on') throw new Error(`${name} of the database is not on`)
  }
}
