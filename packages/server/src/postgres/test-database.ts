import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { startEmbeddedPostgres } from './embedded-postgres.ts'

/** Where vitest-global-setup.ts leaves the address of the run's PostgreSQL for the workers. */
export const testClusterVariable = 'TENON_TEST_POSTGRES_URL'

export type TestDatabase = { url: string; drop(): Promise<void> }
export type TestCluster = { url: string; stop(): Promise<void> }

/** A fresh, empty database on the run's PostgreSQL; drop() ends what is still connected to it. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const admin = process.env[testClusterVariable]
  if (admin === undefined) {
    throw new Error('no PostgreSQL for tests: name postgres/vitest-global-setup.ts as globalSetup of vitest')
  }
  const name = `test_${randomBytes(8).toString('hex')}`
  await run(admin, `create database ${name}`)
  const url = new URL(admin)
  url.pathname = `/${name}`
  return {
    url: url.toString(),
    drop: async () => run(admin, `drop database if exists ${name} with (force)`),
  }
}

/** Not durable: its data lives as long as the tests that made it. */
export async function startTestCluster(): Promise<TestCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-test-postgres-'))
  const log = { info: () => {}, warn: (fields: object, message: string) => console.warn(message, fields) }
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  try {
    const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'data'), durable: false, log })
    return { url: postgres.url, stop: async () => postgres.stop().finally(remove) }
  } catch (error) {
    remove()
    throw error
  }
}

async function run(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
