import { createClient } from '@tenon/protocol'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { ProgramFailed, startProgram, type Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { createWorld } from './world.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
let programs: { dist: string; remove(): void }
let dir: string
const started: Program[] = []

beforeAll(async () => {
  programs = await buildPrograms(root)
})
afterAll(() => programs.remove())
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'tenon-first-start-'))
})
afterEach(async () => {
  for (const program of started.splice(0)) await program.stop()
  rmSync(dir, { recursive: true, force: true })
})

const world = () => createWorld({ dir, dist: programs.dist, onStart: (program) => started.push(program) })
const tokenFile = () => join(dir, 'server', 'owner.token')

/** `tenon server recover-owner`, which answers with the file of the new token. */
async function recoverOwner(): Promise<string> {
  const program = startProgram({
    name: 'recovery',
    bundle: join(programs.dist, 'cli.mjs'),
    args: ['server', 'recover-owner'],
    env: { PATH: process.env['PATH'] ?? '', HOME: dir, TENON_DATA_DIR: join(dir, 'server') },
    logFile: join(dir, 'recovery.log'),
  })
  started.push(program)
  const file = await program.firstLine()
  expect(await program.exited).toBe(0)
  return file
}

it('a first start on a busy port, then one that works, and an owner who lost the token twice', async () => {
  const busy = createServer().listen(0, '127.0.0.1')
  await once(busy, 'listening')
  const { port } = busy.address() as AddressInfo
  await expect(world().startServer({ port })).rejects.toBeInstanceOf(ProgramFailed)
  busy.close()

  const server = await world().startServer()
  const { you } = await server.client.call('server.info', {})
  expect(you.role).toBe('owner')

  rmSync(tokenFile())
  expect(await recoverOwner()).toBe(tokenFile())
  const again = createClient({ url: server.url, token: readFileSync(tokenFile(), 'utf8').trim() })
  await again.call('tokens.revoke', { params: { id: you.tokenId } })
  await server.program.stop()

  rmSync(tokenFile())
  await recoverOwner()
  const { client } = await world().startServer()
  const { items } = await client.call('tokens.list', {})
  expect(items.map(({ name }) => name)).toEqual(['recovered owner', 'recovered owner', 'owner'])
})
