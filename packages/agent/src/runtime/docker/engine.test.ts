import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createEngine, type Engine } from './engine.ts'

const STATE = {
  Config: { Labels: {} },
  State: { Status: 'running', Running: true, ExitCode: 0 },
}

describe('an engine that answers 500', () => {
  let dir: string
  let server: Server
  let engine: Engine
  /** How often the engine still fails, and what it was asked besides its version. */
  let failures: number
  let asked: string[]

  beforeAll(async () => void (dir = await mkdtemp(path.join(tmpdir(), 'tenon-engine-'))))
  afterAll(() => rm(dir, { recursive: true, force: true }))
  beforeEach(async () => {
    ;[failures, asked] = [0, []]
    server = createServer((request, response) => {
      const url = request.url ?? ''
      if (url === '/version') return void response.end(JSON.stringify({ Version: '5', ApiVersion: '1.41' }))
      asked.push(`${request.method} ${url.split('?')[0]}`)
      if (failures-- > 0) return void response.writeHead(500).end('{"message":"container is busy"}')
      if (request.method === 'DELETE') return void response.writeHead(204).end()
      return void response.end(JSON.stringify(url.includes('/containers/json') ? [] : STATE))
    })
    const socket = path.join(dir, 'engine.sock')
    await new Promise<void>((resolve) => server.listen(socket, resolve))
    engine = createEngine([socket])
  })
  afterEach(() => new Promise((resolve) => server.close(resolve)))

  it('is asked again for what changes nothing', async () => {
    failures = 2
    expect(await engine.inspect('one')).toMatchObject({ isRunning: true })
    expect(asked).toEqual(Array.from({ length: 3 }, () => 'GET /v1.41/containers/one/json'))
    failures = 1
    expect(await engine.list('tenon')).toEqual([])
  })

  it('is told again to remove what should be gone', async () => {
    failures = 1
    await engine.remove('one')
    expect(asked).toEqual(Array.from({ length: 2 }, () => 'DELETE /v1.41/containers/one'))
  })

  it('is not told twice to make or to start something', async () => {
    failures = 2
    await expect(engine.create('one', {} as never)).rejects.toMatchObject({ code: 'failed' })
    await expect(engine.start('one')).rejects.toMatchObject({ code: 'failed' })
    expect(asked).toEqual(['POST /v1.41/containers/create', 'POST /v1.41/containers/one/start'])
  })

  it('is believed when it goes on', async () => {
    failures = 100
    await expect(engine.inspect('one')).rejects.toMatchObject({
      code: 'failed',
      message: 'container is busy',
    })
    expect(asked).toHaveLength(4)
  })
})
