import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { StartError } from './errors.ts'

export interface Config {
  dataDir: string
  host: string
  port: number
  /** The address by which agents and people reach this server, when it is not the one it listens on. */
  publicUrl: string | undefined
  /** Undefined: the server runs its own PostgreSQL in `dataDir`. */
  databaseUrl: string | undefined
  postgresPort: number
  poolSize: number
  /** After so long without a byte a busy database connection counts as broken. */
  databaseSilenceSeconds: number
  /** Seals the signing keys in the database; the same for every process of a tenant. */
  masterKey: Uint8Array
  heartbeatSeconds: number
  leaseSeconds: number
  manifestTtlSeconds: number
  /** For how long an agent may hold a job before it lapses. */
  holdSeconds: number
  /** How many steps of one run may be active at once. */
  runParallel: number
  pluginsDir: string
  rateLimitPerMinute: number
  logLevel: string
  trustProxy: boolean
}

const seconds = z.coerce.number().positive().max(86_400)

const environment = z.object({
  TENON_DATA_DIR: z.string().min(1).default('.tenon/server'),
  TENON_HOST: z.string().min(1).default('127.0.0.1'),
  TENON_PORT: z.coerce.number().int().min(0).max(65_535).default(7080),
  TENON_PUBLIC_URL: z.url().optional(),
  DATABASE_URL: z.string().min(1).optional(),
  TENON_POSTGRES_PORT: z.coerce.number().int().min(0).max(65_535).default(0),
  TENON_POOL_SIZE: z.coerce.number().int().min(2).max(500).default(20),
  TENON_DATABASE_SILENCE_SECONDS: seconds.default(30),
  TENON_MASTER_KEY_FILE: z.string().min(1).optional(),
  TENON_HEARTBEAT_SECONDS: seconds.default(10),
  TENON_LEASE_SECONDS: seconds.default(45),
  TENON_MANIFEST_TTL_SECONDS: seconds.default(3600),
  TENON_HOLD_SECONDS: z.coerce.number().positive().max(604_800).default(604_800),
  TENON_RUN_PARALLEL: z.coerce.number().int().min(1).max(1000).default(10),
  TENON_PLUGINS_DIR: z.string().min(1).optional(),
  TENON_RATE_LIMIT_PER_MINUTE: z.coerce.number().int().positive().default(1200),
  TENON_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  TENON_TRUST_PROXY: z.enum(['0', '1']).default('0'),
})

/** The only reader of the environment. `programDir` is where the running bundle lies. */
export function readConfig(
  env: Record<string, string | undefined>,
  programDir: string,
  mayMakeKey = true,
): Config {
  const parsed = environment.safeParse(env)
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
    throw new StartError(
      'bad_config',
      `the settings are wrong: ${lines.join('; ')}`,
      'Correct these environment variables and start again.',
    )
  }
  const given = parsed.data
  if (given.TENON_LEASE_SECONDS < given.TENON_HEARTBEAT_SECONDS * 2) {
    throw new StartError(
      'bad_config',
      'a lease must last for at least two heartbeats',
      'Raise TENON_LEASE_SECONDS or lower TENON_HEARTBEAT_SECONDS.',
    )
  }
  const dataDir = resolve(given.TENON_DATA_DIR)
  return {
    dataDir,
    host: given.TENON_HOST,
    port: given.TENON_PORT,
    publicUrl: given.TENON_PUBLIC_URL,
    databaseUrl: given.DATABASE_URL,
    postgresPort: given.TENON_POSTGRES_PORT,
    poolSize: given.TENON_POOL_SIZE,
    databaseSilenceSeconds: given.TENON_DATABASE_SILENCE_SECONDS,
    masterKey: readMasterKey(
      given.TENON_MASTER_KEY_FILE ?? join(dataDir, 'master.key'),
      mayMakeKey && given.TENON_MASTER_KEY_FILE === undefined,
      dataDir,
    ),
    heartbeatSeconds: given.TENON_HEARTBEAT_SECONDS,
    leaseSeconds: given.TENON_LEASE_SECONDS,
    manifestTtlSeconds: given.TENON_MANIFEST_TTL_SECONDS,
    holdSeconds: given.TENON_HOLD_SECONDS,
    runParallel: given.TENON_RUN_PARALLEL,
    pluginsDir: given.TENON_PLUGINS_DIR ?? join(programDir, 'plugins'),
    rateLimitPerMinute: given.TENON_RATE_LIMIT_PER_MINUTE,
    logLevel: given.TENON_LOG_LEVEL,
    trustProxy: given.TENON_TRUST_PROXY === '1',
  }
}

function readMasterKey(file: string, mayCreate: boolean, dataDir: string): Uint8Array {
  try {
    if (mayCreate) createMasterKey(file, dataDir)
    const key = Buffer.from(readFileSync(file, 'utf8').trim(), 'base64')
    if (key.byteLength === 32) return key
  } catch (cause) {
    throw new StartError(
      'no_master_key',
      `the master key cannot be read from ${file}`,
      'Check the file and its permissions.',
      cause,
    )
  }
  throw new StartError(
    'bad_master_key',
    `${file} does not hold 32 bytes in base64`,
    'Restore it from your backup; without it the signing keys cannot be opened.',
  )
}

/** It appears whole or not at all: a start that dies meanwhile leaves no half of it behind. */
function createMasterKey(file: string, dataDir: string): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  if (existsSync(file)) return
  const draft = `${file}.${process.pid}.draft`
  rmSync(draft, { force: true })
  writeFileSync(draft, `${randomBytes(32).toString('base64')}\n`, { flag: 'wx', mode: 0o600, flush: true })
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
}
