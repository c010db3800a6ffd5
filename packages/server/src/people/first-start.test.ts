import { createClient } from '@tenon/protocol'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Config } from '../config.ts'
import { createTestDatabase, type TestDatabase } from '../postgres/test-database.ts'
import { recoverOwner } from '../recover-owner.ts'
import { startServer } from '../start.ts'
import { entriesOf } from '../testing/audit.ts'
import { bundleServer } from '../testing/server-program.ts'
import { testConfig } from '../testing/test-server.ts'

const log = pino({ level: 'silent' })
let dir: string
let database: TestDatabase
let config: Config

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'tenon-first-start-'))
  database = await createTestDatabase()
  config = testConfig(join(dir, 'data'), { databaseUrl: database.url })
  mkdirSync(config.pluginsDir, { recursive: true })
})
afterEach(async () => {
  await database.drop()
  rmSync(dir, { recursive: true, force: true })
})

const file = (name = 'owner.token') => join(config.dataDir, name)
const tokenOf = () => readFileSync(file(), 'utf8').trim()

/** Starts, and asks who the token in the folder is; then stops. */
async function ownerAfterStart(): Promise<{ role: string; owners: number; leftDraft: boolean }> {
  const server = await startServer(config, log)
  try {
    const client = createClient({ url: server.url, token: tokenOf() })
    const { you } = await client.call('server.info', {})
    const { items } = await client.call('tokens.list', {})
    const owners = items.filter(({ role, revokedAt }) => role === 'owner' && revokedAt === null).length
    return { role: you.role, owners, leftDraft: existsSync(file('owner.token.draft')) }
  } finally {
    await server.stop()
  }
}
const SOUND = { role: 'owner', owners: 1, leftDraft: false }

describe('the first start of a tenant', () => {
  it('on a busy port leaves a folder with which the next start works', async () => {
    const busy = createServer().listen(0, '127.0.0.1')
    await once(busy, 'listening')
    const { port } = busy.address() as AddressInfo
    await expect(startServer({ ...config, port }, log)).rejects.toMatchObject({ code: 'port_in_use' })
    busy.close()
    expect(await ownerAfterStart()).toEqual(SOUND)
  })

  it('that died before the database knew the token is done anew', async () => {
    mkdirSync(config.dataDir, { recursive: true })
    writeFileSync(file('owner.token.draft'), `tenon_${'d'.repeat(43)}\n`)
    expect(await ownerAfterStart()).toEqual(SOUND)
    expect(tokenOf()).not.toContain('dddd')
  })

  it('that died after the database knew the token is completed', async () => {
    await ownerAfterStart()
    const made = tokenOf()
    renameSync(file(), file('owner.token.draft'))
    expect(await ownerAfterStart()).toEqual(SOUND)
    expect(tokenOf()).toBe(made)
  })

  it('of two processes at once makes one owner', async () => {
    const both = await Promise.all([startServer(config, log), startServer(config, log)])
    expect(both.filter(({ ownerToken }) => ownerToken !== undefined)).toHaveLength(1)
    await Promise.all(both.map((server) => server.stop()))
    expect(await ownerAfterStart()).toEqual(SOUND)
  })
})

describe('a first start that is killed', () => {
  let folder: string
  let program: string
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tenon-server-program-'))
    program = await bundleServer(folder)
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it.each(['master.key', 'owner.token.draft', 'owner.token'])(
    'once it has made %s is completed by the next',
    async (name) => {
      mkdirSync(config.dataDir, { recursive: true })
      const watching = watch(config.dataDir)
      const child = spawn(process.execPath, [program], {
        stdio: 'ignore',
        env: {
          PATH: process.env['PATH'],
          DATABASE_URL: database.url,
          TENON_DATA_DIR: config.dataDir,
          TENON_PLUGINS_DIR: config.pluginsDir,
          TENON_PORT: '0',
        },
      })
      const exited = once(child, 'exit')
      watching.on('change', (_event, changed) => {
        if (changed === name) child.kill('SIGKILL')
      })
      await exited
      watching.close()
      config = {
        ...config,
        masterKey: Buffer.from(readFileSync(file('master.key'), 'utf8').trim(), 'base64'),
      }
      expect(await ownerAfterStart()).toEqual(SOUND)
    },
  )
})

describe('an owner who has no token left', () => {
  it('is warned before: the last one cannot be revoked, and recovery is named', async () => {
    const server = await startServer(config, log)
    try {
      const client = createClient({ url: server.url, token: tokenOf() })
      const { you } = await client.call('server.info', {})
      const soon = { name: 'short', role: 'owner' as const, expiresInSeconds: 1 }
      const { token } = await client.call('tokens.create', { body: soon })
      await server.context.pool.query(`update api_token set expires_at = now() where id = $1`, [token.id])
      const revoke = () => client.call('tokens.revoke', { params: { id: you.tokenId } })
      await expect(revoke()).rejects.toMatchObject({
        code: 'wrong_state',
        remedy: expect.stringContaining('tenon server recover-owner') as string,
      })
      await client.call('tokens.create', { body: { name: 'second', role: 'owner' } })
      await expect(revoke()).resolves.toMatchObject({ id: you.tokenId })
    } finally {
      await server.stop()
    }
  })

  it('gets one on the server’s machine while the server runs, and the audit says so', async () => {
    const server = await startServer(config, log)
    try {
      await server.context.pool.query('update api_token set revoked_at = now()')
      const { tokenId, file: written } = await recoverOwner(config, log)
      expect(written).toBe(file())
      const client = createClient({ url: server.url, token: tokenOf() })
      expect((await client.call('server.info', {})).you).toMatchObject({ tokenId, role: 'owner' })
      const entries = await entriesOf({ client, context: server.context }, 'server')
      const bodies = entries.map(
        ({ body }) => JSON.parse(body) as { action: string; subject: { id: string } },
      )
      expect(bodies.find(({ action }) => action === 'owner.recovered')?.subject.id).toBe(tokenId)
    } finally {
      await server.stop()
    }
  })

  it('gets none without the tenant’s master key, nor where no server ever started', async () => {
    await expect(recoverOwner(config, log)).rejects.toMatchObject({ code: 'no_tenant' })
    await ownerAfterStart()
    const other = { ...config, masterKey: Buffer.alloc(32, 7) }
    await expect(recoverOwner(other, log)).rejects.toMatchObject({ code: 'wrong_master_key' })
    await expect(recoverOwner({ ...config, databaseUrl: undefined }, log)).rejects.toMatchObject({
      code: 'postgres_data_broken',
    })
  })
})
