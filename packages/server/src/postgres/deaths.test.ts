import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { accountFor, credentials } from './account.ts'
import { systemClock, waitFor } from './clock.ts'
import { type EmbeddedPostgresOptions, startEmbeddedPostgres } from './embedded-postgres.ts'
import { hasProc, identify, isAlive, postgresProcessesIn, runsPostgresIn } from './process-table.ts'
import type { EmbeddedPostgres } from './supervise.ts'
import {
  type SupervisorProcess,
  type SupervisorProgram,
  buildSupervisorProgram,
} from './supervisor-process.ts'

const quiet = { info: () => {}, warn: () => {} }
let program: SupervisorProgram
let folder: string
let dataDir: string
let running: EmbeddedPostgres[]
let supervisors: SupervisorProcess[]

beforeAll(async () => {
  program = await buildSupervisorProgram()
})
afterAll(() => program.remove())

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tenon-pg-'))
  dataDir = join(folder, 'data')
  running = []
  supervisors = []
})

afterEach(async () => {
  await Promise.all(running.map(async (postgres) => postgres.stop()))
  for (const { child } of supervisors) child.kill('SIGTERM')
  await Promise.all(supervisors.map(async ({ ended }) => ended))
  const leaked = postgresProcessesIn(dataDir)
  for (const { pid } of leaked) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 })
  if (leaked.length > 0) throw new Error('a postgres process was leaked')
})

async function start(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres({ dataDir, log: quiet, ...options })
  running.push(postgres)
  return postgres
}

function startElsewhere(): SupervisorProcess {
  const supervisor = program.start({ dataDir })
  supervisors.push(supervisor)
  return supervisor
}

/** A PostgreSQL whose supervisor was killed with -9. */
async function orphan(): Promise<{ url: string; pid: number }> {
  const supervisor = startElsewhere()
  const report = await supervisor.report
  if ('code' in report) throw new Error(report.message)
  await query(report.url, 'create table kept as select 42 as answer')
  supervisor.child.kill('SIGKILL')
  await supervisor.ended
  expect(runsPostgresIn(report.pid, dataDir)).toBe(true)
  return report
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows
  } finally {
    await client.end()
  }
}

async function answerOf(postgres: EmbeddedPostgres): Promise<unknown> {
  return (await query(postgres.url, 'select answer from kept'))[0]?.['answer']
}

/** A data folder after kill -9 of the supervisor and of PostgreSQL. */
async function crash(): Promise<void> {
  const { pid } = await orphan()
  process.kill(pid, 'SIGKILL')
  await waitFor(systemClock, 10_000, () => (postgresProcessesIn(dataDir).length === 0 ? true : undefined))
}

describe.skipIf(!hasProc)('after kill -9 of the supervisor', () => {
  it('the next start adopts the PostgreSQL that lives on, and its stop is a real stop', async () => {
    const { url, pid } = await orphan()
    const postgres = await start()
    expect([postgres.adopted, postgres.pid(), postgres.url]).toEqual([true, pid, url])
    expect(await answerOf(postgres)).toBe(42)
    await postgres.stop()
    expect(postgresProcessesIn(dataDir)).toEqual([])
  })

  it('an adopted PostgreSQL that dies is noticed and started again', async () => {
    const { pid } = await orphan()
    const postgres = await start()
    const exit = new Promise((settle) => postgres.onExit(settle))
    process.kill(pid, 'SIGKILL')
    await exit
    await waitFor(systemClock, 10_000, () => (postgres.pid() === pid ? undefined : true))
    expect(await answerOf(postgres)).toBe(42)
  })

  it('a PostgreSQL with other settings is stopped cleanly and started anew', async () => {
    const { pid } = await orphan()
    const postgres = await start({ durable: false })
    expect(postgres.adopted).toBe(false)
    expect(postgres.pid()).not.toBe(pid)
    expect(await answerOf(postgres)).toBe(42)
  })

  it('a PostgreSQL on another port than the wanted one is stopped and started there', async () => {
    const { url } = await orphan()
    const port = Number(new URL(url).port)
    const elsewhere = port === 65_000 ? 65_001 : port + 1
    const postgres = await start({ port: elsewhere })
    expect(postgres.adopted).toBe(false)
    expect(postgres.url).toContain(`:${elsewhere}/`)
    expect(await answerOf(postgres)).toBe(42)
  })

  it('backends that outlive a killed postmaster are ended before a new one starts', async () => {
    const { url, pid } = await orphan()
    const client = new Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    const busy = client.query('do $$ begin loop perform 1; end loop; end $$').catch(() => 'cut')
    const backend = await waitFor(systemClock, 5000, async () => {
      const rows = await query(
        url,
        "select pid from pg_stat_activity where query like 'do %' and state = 'active'",
      )
      return rows[0]?.['pid'] as number | undefined
    })
    const identity = identify(backend ?? 0)
    process.kill(pid, 'SIGKILL')
    expect(identity !== undefined && isAlive(identity)).toBe(true)
    const postgres = await start()
    expect(identity !== undefined && isAlive(identity)).toBe(false)
    expect(await answerOf(postgres)).toBe(42)
    expect(await busy).toBe('cut')
  })

  it('a first start that was cut off in the middle is made anew', async () => {
    const supervisor = startElsewhere()
    const halfMade = await waitFor(systemClock, 10_000, () =>
      readdirSync(folder).some((name) => name.startsWith('data.new-')) ? true : undefined,
    )
    supervisor.child.kill('SIGKILL')
    await supervisor.ended
    expect([halfMade, readdirSync(folder).includes('data')]).toEqual([true, false])
    const postgres = await start()
    expect(await query(postgres.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(readdirSync(folder).filter((name) => name.startsWith('data.new-'))).toEqual([])
  })
})

describe.skipIf(!hasProc)('a stale postmaster.pid', () => {
  it('of a dead process does not stand in the way', async () => {
    await crash()
    expect(await answerOf(await start())).toBe(42)
  })

  it('whose pid a stranger of the same account has now does not stand in the way, and the stranger lives', async () => {
    await crash()
    const stranger = spawn('sleep', ['60'], {
      stdio: 'ignore',
      cwd: '/',
      ...credentials(accountFor(dataDir)),
    })
    try {
      const pidFile = join(dataDir, 'postmaster.pid')
      writeFileSync(
        pidFile,
        `${stranger.pid}\n/proc/self/cwd\n1700000000\n5432\n\n127.0.0.1\n 1 1\nready   \n`,
      )
      expect(await answerOf(await start())).toBe(42)
      expect(stranger.exitCode ?? stranger.signalCode).toBe(null)
    } finally {
      stranger.kill('SIGKILL')
    }
  })

  it('that is empty does not stand in the way', async () => {
    await crash()
    writeFileSync(join(dataDir, 'postmaster.pid'), '')
    expect(await answerOf(await start())).toBe(42)
  })
})

describe('a second supervisor', () => {
  it('is refused while the first lives, by whatever path it comes, and told who holds the folder', async () => {
    await start()
    const report = await startElsewhere().report
    expect(report).toMatchObject({
      code: 'postgres_data_in_use',
      message: expect.stringContaining(`process ${process.pid}`),
    })
    const link = `${folder}-link`
    symlinkSync(folder, link)
    try {
      await expect(start({ dataDir: join(link, 'data') })).rejects.toMatchObject({
        code: 'postgres_data_in_use',
      })
    } finally {
      rmSync(link)
    }
  })

  it('takes over the lock of a dead one, even when its pid is in use again', async () => {
    writeFileSync(`${dataDir}.lock.7`, JSON.stringify({ pid: process.pid, startedAt: 'another boot:1' }))
    await start()
    expect(readdirSync(folder).filter((name) => name.startsWith('data.lock'))).toEqual(['data.lock.8'])
  })

  it('of four that find a dead holder at once only one takes over', async () => {
    writeFileSync(`${dataDir}.lock.1`, JSON.stringify({ pid: 1, startedAt: 'another boot:1' }))
    const reports = await Promise.all([1, 2, 3, 4].map(async () => startElsewhere().report))
    const refused = reports.filter((report) => 'code' in report)
    expect(refused.map((report) => report.code)).toEqual(Array(3).fill('postgres_data_in_use'))
  })
})
