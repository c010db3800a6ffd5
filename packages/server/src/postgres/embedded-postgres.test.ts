import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, Pool } from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock, waitFor } from './clock.ts'
import { type EmbeddedPostgresOptions, startEmbeddedPostgres } from './embedded-postgres.ts'
import { postgresProcessesIn } from './process-table.ts'
import type { EmbeddedPostgres } from './supervise.ts'

const quiet = { info: () => {}, warn: () => {} }
let folder: string
let dataDir: string
let running: EmbeddedPostgres[]

beforeEach(() => {
  // mkdtemp makes a folder with mode 0700: as root, no other account can walk into it.
  folder = mkdtempSync(join(tmpdir(), 'tenon-pg-'))
  dataDir = join(folder, 'data')
  running = []
})

afterEach(async () => {
  await Promise.all(running.map(async (postgres) => postgres.stop()))
  const leaked = postgresProcessesIn(dataDir)
  for (const { pid } of leaked) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true, force: true })
  if (leaked.length > 0) throw new Error('a postgres process was leaked')
})

async function start(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres({ dataDir, log: quiet, ...options })
  running.push(postgres)
  return postgres
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

describe('the embedded PostgreSQL', () => {
  it('comes up durable, checked and on the loopback only, inside a private folder', async () => {
    const { url, adopted } = await start()
    const wanted = ['fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums', 'listen_addresses']
    const names = [...wanted, 'max_connections', 'server_encoding', 'password_encryption']
    const rows = await query(
      url,
      `select name, setting from pg_settings where name in (${names.map((name) => `'${name}'`).join(',')})`,
    )
    expect(adopted).toBe(false)
    expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
      fsync: 'on',
      synchronous_commit: 'on',
      full_page_writes: 'on',
      data_checksums: 'on',
      listen_addresses: '127.0.0.1',
      max_connections: '200',
      server_encoding: 'UTF8',
      password_encryption: 'scram-sha-256',
    })
  })

  it('keeps its data and its password over a stop and a start', async () => {
    const first = await start()
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    await first.stop()
    expect(postgresProcessesIn(dataDir)).toEqual([])
    const second = await start()
    expect(second.adopted).toBe(false)
    expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }])
    expect(new URL(second.url).password).toBe(new URL(first.url).password)
  })

  it('lets nobody in without the password, which stands in one private file only', async () => {
    const { url, pid } = await start()
    const { password } = new URL(url)
    const wrong = new URL(url)
    wrong.password = 'guess'
    await expect(query(wrong.toString(), 'select 1')).rejects.toMatchObject({ code: '28P01' })
    expect(statSync(`${dataDir}.password`).mode & 0o777).toBe(0o600)
    expect(readFileSync(`${dataDir}.log`, 'utf8')).not.toContain(password)
    expect(readFileSync(`/proc/${pid()}/cmdline`, 'utf8')).not.toContain(password)
    expect(readdirSync(folder).toSorted()).toEqual(['data', 'data.lock.1', 'data.log', 'data.password'])
  })

  it('loses no acknowledged row when it is restarted under load', async () => {
    const postgres = await start()
    await query(postgres.url, 'create table load (id bigserial primary key, writer int, n int)')
    const pool = new Pool({ connectionString: postgres.url, max: 4 })
    pool.on('error', () => {})
    const acknowledged: string[] = []
    const over = new AbortController()
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let n = 0; !over.signal.aborted; n += 1) {
        await pool.query('insert into load (writer, n) values ($1, $2)', [writer, n]).then(
          () => acknowledged.push(`${writer}:${n}`),
          async () => systemClock.sleep(5),
        )
      }
    })
    const moreThan = async (count: number) =>
      waitFor(systemClock, 10_000, () => (acknowledged.length > count ? true : undefined))
    await moreThan(100)
    const before = postgres.pid()
    await postgres.restart()
    expect(postgres.pid()).not.toBe(before)
    expect(await moreThan(acknowledged.length + 100)).toBe(true)
    over.abort()
    await Promise.all(writers)
    await pool.end()
    const stored = new Set(
      (await query(postgres.url, 'select writer, n from load')).map(
        (r) => `${String(r['writer'])}:${String(r['n'])}`,
      ),
    )
    expect(acknowledged.filter((row) => !stored.has(row))).toEqual([])
  })

  it('is started again at the same address when it is killed, and says so', async () => {
    const postgres = await start()
    await query(postgres.url, 'create table kept as select 42 as answer')
    const before = postgres.pid()
    const exit = new Promise((settle) => postgres.onExit(settle))
    process.kill(before, 'SIGKILL')
    expect(await exit).toMatchObject({ signal: 'SIGKILL' })
    const back = await waitFor(systemClock, 10_000, () => (postgres.pid() === before ? undefined : true))
    expect(back).toBe(true)
    expect(await query(postgres.url, 'select answer from kept')).toEqual([{ answer: 42 }])
  })

  it('can be stopped while it is being started again', async () => {
    const postgres = await start()
    const exit = new Promise((settle) => postgres.onExit(settle))
    process.kill(postgres.pid(), 'SIGKILL')
    await exit
    await postgres.stop()
    expect(
      await waitFor(systemClock, 5000, () => (postgresProcessesIn(dataDir).length === 0 ? true : undefined)),
    ).toBe(true)
    await expect(postgres.restart()).rejects.toMatchObject({ code: 'postgres_start_failed' })
  })
})

describe('a start that cannot succeed', () => {
  it('names the busy port and the way out', async () => {
    const other = createServer()
    await new Promise<void>((settle) => other.listen(0, '127.0.0.1', settle))
    const address = other.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    try {
      await expect(start({ port })).rejects.toMatchObject({
        code: 'postgres_port_in_use',
        message: expect.stringMatching(new RegExp(`port ${port} .*choose another port`)),
      })
    } finally {
      other.close()
    }
    expect((await start({ port })).url).toContain(`:${port}/`)
  })

  it('touches nothing in a folder that holds other files', async () => {
    mkdirSync(dataDir)
    writeFileSync(join(dataDir, 'thesis.txt'), 'precious')
    await expect(start()).rejects.toMatchObject({
      code: 'postgres_data_broken',
      message: expect.stringContaining('move it away'),
    })
    expect(readdirSync(dataDir)).toEqual(['thesis.txt'])
  })

  it('says which version made the data', async () => {
    mkdirSync(dataDir)
    writeFileSync(join(dataDir, 'PG_VERSION'), '12\n')
    await expect(start()).rejects.toMatchObject({
      code: 'postgres_data_broken',
      message: expect.stringMatching(/made by PostgreSQL 12, this is PostgreSQL 18/),
    })
  })

  it('says what a file in place of the folder or an unwritable parent needs', async () => {
    writeFileSync(dataDir, '')
    await expect(start()).rejects.toMatchObject({ code: 'postgres_data_broken' })
    await expect(start({ dataDir: join(dataDir, 'below', 'data') })).rejects.toMatchObject({
      code: 'postgres_data_broken',
      message: expect.stringContaining('not writable'),
    })
  })

  it('shows the last words of a PostgreSQL that does not start, and starts once it is repaired', async () => {
    await (await start()).stop()
    const control = join(dataDir, 'global', 'pg_control')
    const kept = readFileSync(control)
    writeFileSync(control, Buffer.alloc(kept.length))
    await expect(start()).rejects.toMatchObject({
      code: 'postgres_start_failed',
      message: expect.stringMatching(/FATAL|PANIC/),
    })
    writeFileSync(control, kept)
    expect((await start()).adopted).toBe(false)
  })

  it('asks for a lost password file and for an incomplete database', async () => {
    await (await start()).stop()
    const password = readFileSync(`${dataDir}.password`)
    rmSync(`${dataDir}.password`)
    await expect(start()).rejects.toMatchObject({
      code: 'postgres_data_broken',
      message: expect.stringContaining('data.password'),
    })
    writeFileSync(`${dataDir}.password`, 'another\n')
    await expect(start()).rejects.toMatchObject({ code: 'postgres_data_broken' })
    writeFileSync(`${dataDir}.password`, password)
    rmSync(join(dataDir, 'global'), { recursive: true })
    await expect(start()).rejects.toMatchObject({
      code: 'postgres_data_broken',
      message: expect.stringContaining('incomplete'),
    })
  })
})
