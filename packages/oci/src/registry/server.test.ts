import { connect } from 'node:net'
import { once } from 'node:events'
import { Agent, request } from 'undici'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sha256Digest } from '../index.ts'
import { rawRequest } from '../testing/raw-http.ts'
import { allFiles, createRegistryWorld } from '../testing/registry-world.ts'
import type { RegistryWorld } from '../testing/registry-world.ts'

describe('a registry of its own', () => {
  let world: RegistryWorld

  beforeEach(async () => {
    world = await createRegistryWorld()
  })
  afterEach(() => world.close())

  it('closes at once when connections are idle, and cuts stuck requests after the grace', async () => {
    const registry = await world.start({ closeGraceMs: 100 })
    const agent = new Agent()
    await (await request(`${registry.url}/v2/`, { dispatcher: agent })).body.dump()
    const stuck = connect(registry.port, '127.0.0.1')
    stuck.write('POST /v2/a/blobs/uploads/ HTTP/1.1\r\nHost: x\r\nContent-Le')
    stuck.on('error', () => {})
    await once(stuck, 'connect')
    await registry.close()
    await expect(rawRequest(registry.url, 'GET', '/v2/')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    stuck.destroy()
    await agent.close()
  })

  it('says which port is in use', async () => {
    const { port } = await world.start()
    const message = `cannot listen on 127.0.0.1:${port}`
    await expect(world.start({ port })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining(message) as string,
    })
  })

  it('keeps its content over a restart', async () => {
    const bearer = world.token([{ name: 'a', actions: ['pull', 'push'] }])
    const bytes = Buffer.from('kept')
    const digest = sha256Digest(bytes)
    const before = await world.start()
    await world.client(before, bearer).putBlob('a', digest, bytes.byteLength, bytes)
    await before.close()
    const after = await world.start({ dir: before.dir })
    expect((await rawRequest(after.url, 'GET', `/v2/a/blobs/${digest}`, { bearer })).body.equals(bytes)).toBe(
      true,
    )
  })

  it('answers a fault of its own with 500 and goes on', async () => {
    const errors: unknown[] = []
    let isBroken = true
    const registry = await world.start({
      authorize: async () => {
        if (isBroken) throw new Error('the database is away')
        return { ok: true }
      },
      log: ({ error }) => errors.push(error),
    })
    const answer = await rawRequest(registry.url, 'GET', '/v2/')
    expect(answer).toMatchObject({ status: 500, code: 'UNKNOWN' })
    expect(answer.body.toString()).not.toContain('database')
    expect(errors).toEqual([expect.objectContaining({ message: 'the database is away' })])
    isBroken = false
    expect(await rawRequest(registry.url, 'GET', '/v2/')).toMatchObject({ status: 200 })
  })

  it('is left clean by a client that gives up a large upload', async () => {
    const registry = await world.start()
    const client = world.client(registry, world.token([{ name: 'a', actions: ['pull', 'push'] }]))
    const bytes = Buffer.alloc(3 * 1024 * 1024, 1)
    const wrong = sha256Digest(Buffer.from('another'))
    await expect(client.putBlob('a', wrong, bytes.byteLength, bytes)).rejects.toMatchObject({
      code: 'DIGEST_MISMATCH',
    })
    expect(await allFiles(registry.dir)).toEqual([])
  })
})
