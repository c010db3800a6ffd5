import {
  BULK_LOG,
  encodeBulk,
  LOG_WINDOW,
  MAX_CONTROL_FRAME,
  WIRE_RANGE,
  type AgentEvent,
} from '@tenon/protocol'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { auditOf, auditProblems } from '../testing/audit.ts'
import { idleAgent } from '../testing/idle-agent.ts'
import { unknownId } from '../testing/raw-api.ts'
import {
  type TestAgent,
  connectAgent,
  eventFrame,
  finishedFrame,
  manifestOf,
  openWire,
  shakeHands,
  startedFrame,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp } from '../testing/world.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
  await builtApp(tenant)
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

const job = { jobId: unknownId(), fence: 1 }
const heartbeat = { type: 'heartbeat', running: 0, outboxBytes: 0, dropped: 0 } as const

describe('an upgrade', () => {
  const upgrade = async (line: string) => {
    const socket = connect(Number(new URL(tenant.url).port), '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write(
      `${line} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    )
    const answered = once(socket, 'data').then(([data]) => String(data).split('\r\n')[0])
    const answer = await Promise.race([answered, once(socket, 'close').then(() => 'closed')])
    socket.destroy()
    return answer
  }

  it.each(['GET //', 'GET http://', 'GET /', 'GET /agent/v1/channel/', 'GET /%', 'GET *', 'GET \\\\'])(
    '%s leads nowhere and harms nothing',
    async (line) => {
      expect(await upgrade(line)).not.toContain('101')
    },
  )

  it('of a peer that resets at once harms nothing', async () => {
    for (let i = 0; i < 20; i++) {
      const socket = connect(Number(new URL(tenant.url).port), '127.0.0.1')
      await once(socket, 'connect')
      socket.write('GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      socket.resetAndDestroy()
    }
    expect((await upgrade('GET /agent/v1/channel')) as string).toContain('101')
  })
})

describe('before the handshake', () => {
  it.each([
    ['a heartbeat', heartbeat, 'out_of_order'],
    ['a start of a job', startedFrame(job), 'out_of_order'],
    [
      'an open of another wire version',
      { type: 'open', wire: { min: 98, max: 99 }, agentId: unknownId('agt'), nonce: 'AAAA' },
      'wire_version',
    ],
    ['an open without an id', { type: 'open', wire: 1, nonce: 'AAAA' }, 'bad_frame'],
    [
      'an open of an agent that was there before versions lived together',
      { type: 'open', wire: 1, agentId: unknownId('agt'), nonce: 'AAAA' },
      'wire_version',
    ],
    ['an unknown frame', { type: 'please' }, 'out_of_order'],
    ['no object', 'text', 'bad_frame'],
  ])('%s is rejected with a code', async (_, frame, code) => {
    const wire = await openWire(tenant.url)
    wire.sendRaw(JSON.stringify(frame))
    expect(await wire.next('reject')).toMatchObject({ code })
    expect(await wire.ended).toEqual({ code: 4000 })
  })

  it.each([
    ['text that is no JSON', '{"type":'],
    ['binary garbage', randomBytes(100)],
    ['an empty binary frame', new Uint8Array(0)],
    ['a bulk frame', encodeBulk({ kind: BULK_LOG, stream: 1, offset: 0, payload: new Uint8Array(9) })],
  ])('%s is rejected with a code', async (_, data) => {
    const wire = await openWire(tenant.url)
    wire.sendRaw(data)
    expect(await wire.next('reject')).toMatchObject({ code: 'bad_frame' })
  })

  it('a second open is out of order', async () => {
    const wire = await openWire(tenant.url)
    const open = { type: 'open', wire: WIRE_RANGE, agentId: unknownId('agt'), nonce: 'AAAA' } as const
    wire.send(open)
    await wire.next('challenge')
    wire.send(open)
    expect(await wire.next('reject')).toMatchObject({ code: 'out_of_order' })
  })
})

describe('an agent that is newer', () => {
  it('may say what this server does not know: the rest counts, and an unknown frame is answered', async () => {
    const agent = await idleAgent(tenant)
    agent.sendRaw(JSON.stringify({ type: 'job.levitated', height: 3 }))
    expect(await agent.next('unsupported')).toMatchObject({ frame: 'job.levitated', code: 'unknown_frame' })
    agent.sendRaw(JSON.stringify({ ...heartbeat, extra: 1 }))
    await agent.next('heartbeat.ack')
    expect(agent.isOpen()).toBe(true)
    await agent.close()
  })

  it.each([
    ['job.key_rotated', JSON.stringify({ type: 'job.key_rotated' })],
    ['log2.open', JSON.stringify({ type: 'log2.open', stream: 1 })],
    ['binary.9', encodeBulk({ kind: 9, stream: 1, offset: 0, payload: new Uint8Array(1) })],
    ['binary.200', new Uint8Array([200])],
  ])('hears of %s that it is not known, and goes on', async (name, data) => {
    const agent = await idleAgent(tenant)
    agent.sendRaw(data)
    expect(await agent.next('unsupported')).toMatchObject({ frame: name, code: 'unknown_frame' })
    agent.sendRaw(JSON.stringify(heartbeat))
    await agent.next('heartbeat.ack')
    await agent.close()
  })

  it('speaks the newest version that both know', async () => {
    const agent = await idleAgent(tenant, { wire: { min: 2, max: 99 }, features: ['levitate'] })
    expect(agent.isOpen()).toBe(true)
    await agent.close()
  })
})

describe('after the handshake', () => {
  it.each([
    [
      'a second hello or open',
      JSON.stringify({ type: 'open', wire: WIRE_RANGE, agentId: unknownId('agt'), nonce: 'AAAA' }),
      'out_of_order',
    ],
    ['wrong types', JSON.stringify({ ...heartbeat, running: 'many' }), 'bad_frame'],
    ['a type that is none', JSON.stringify({ type: 'Please; drop' }), 'bad_frame'],
    ['an id that is none', JSON.stringify({ ...startedFrame(job), jobId: "'; drop table job" }), 'bad_frame'],
    ['a time that no calendar has', JSON.stringify({ ...startedFrame(job), at: 'yesterday' }), 'bad_frame'],
    ['a frame past the limit', `"${'x'.repeat(MAX_CONTROL_FRAME + 10)}"`, 'too_large'],
    ['a binary frame that is too short', new Uint8Array([BULK_LOG, 0]), 'bad_frame'],
  ])('%s ends the connection with a code', async (_, data, code) => {
    const agent = await idleAgent(tenant)
    agent.sendRaw(data)
    expect(await agent.next('reject')).toMatchObject({ code })
    await agent.ended
  })

  it('a frame far past the limit is not even read', async () => {
    const agent = await idleAgent(tenant)
    agent.sendRaw(`"${'x'.repeat(3 * MAX_CONTROL_FRAME)}"`)
    expect(await agent.ended).toEqual({ code: 1009 })
  })

  it('frames about jobs, secrets and streams that are not its own change nothing', async () => {
    const agent = await idleAgent(tenant)
    agent.send({ type: 'job.accepted', ...job })
    agent.send(startedFrame(job))
    agent.send({ type: 'job.progress', ...job, message: '', fraction: 1 })
    agent.send({ type: 'job.refused', ...job, code: 'policy', message: '' })
    agent.send({ type: 'log.open', stream: 1, ...job })
    agent.send({ type: 'log.end', stream: 77, bytes: 5 })
    agent.send({ type: 'secret.stored', secretId: 1, ok: true, message: '' })
    agent.send({ type: 'credential.request', requestId: 1, ...job, want: 'registry' })
    agent.sendRaw(encodeBulk({ kind: BULK_LOG, stream: 1, offset: 0, payload: randomBytes(10) }))
    expect(await agent.next('credential.refused')).toMatchObject({ requestId: 1 })
    agent.send(finishedFrame(agent.identity, job))
    await agent.next('job.settled')
    agent.send(heartbeat)
    await agent.next('heartbeat.ack')
    await agent.close()
  })

  it('an agent that goes silent is let go, so that no job is given to a dead line', async () => {
    const quick = await startTestTenant({ heartbeatSeconds: 0.2, leaseSeconds: 0.8 })
    try {
      const agent = await idleAgent(quick)
      expect(await agent.next('reject')).toMatchObject({ code: 'busy' })
      const away = async () => (await quick.client.call('agents.list', { query: {} })).items[0]
      await until('not connected', async () => (await away())?.connected === false)
    } finally {
      await quick.stop()
    }
  })

  it('a job that its agent says nothing about is given to it again, until it answers', async () => {
    const quick = await startTestTenant({ heartbeatSeconds: 0.2, leaseSeconds: 600 })
    try {
      await builtApp(quick)
      const agent = await activeInstall(quick, 'one')
      await quick.client.call('deploys.create', { params: { ref: 'one' }, body: { components: ['db'] } })
      const first = await agent.next('job.assign')
      const { jobId, fence } = manifestOf(first)
      expect(await agent.next('job.assign')).toEqual(first)
      agent.send({ type: 'job.accepted', jobId, fence })
      await leasesRenewed(quick, agent, jobId)
      const given = agent.frames.filter((f) => f.type === 'job.assign').length
      await leasesRenewed(quick, agent, jobId)
      expect(agent.frames.filter((f) => f.type === 'job.assign')).toHaveLength(given)
      await agent.close()
    } finally {
      await quick.stop()
    }
  })

  it('an agent that leaves in the middle of its handshake does not stay connected', async () => {
    const agent = await idleAgent(tenant)
    const { identity } = agent
    await agent.close()
    const wires = await Promise.all(Array.from({ length: 5 }, () => openWire(tenant.url)))
    for (const wire of wires) {
      void shakeHands(wire, identity).catch(() => undefined)
      await until('a challenge', () => wire.frames.some((f) => f.type === 'challenge'))
      await wire.close()
    }
    const shown = await until('not connected', async () => {
      const { items } = await tenant.client.call('agents.list', { query: {} })
      return items.find((a) => a.id === identity.agentId && !a.connected)
    })
    expect(shown.status).toBe('enrolled')
  })
})

describe('events', () => {
  const event = (agent: TestAgent, seq: number, change: Partial<AgentEvent> = {}) =>
    eventFrame(agent.identity, {
      seq,
      at: new Date().toISOString(),
      action: 'agent.swept',
      jobId: null,
      details: { n: seq },
      ...change,
    })

  it('are written once however often they come, and the count goes on after a reconnect', async () => {
    const agent = await idleAgent(tenant)
    for (const seq of [1, 2, 2, 1, 3]) agent.send(event(agent, seq))
    for (const seq of [1, 2, 3]) await agent.next('event.ack', (f) => f.seq === seq)
    const { agentId } = agent.identity
    await until('written', async () => {
      const audit = await auditOf(tenant, 'server', agentId)
      return audit.filter((a) => a === 'agent.swept ok').length === 3
    })
    await agent.close()
    const again = await connectAgent(tenant.url, agent.identity)
    expect(again.welcome.eventSeq).toBe(3)
    await again.close()
  })

  it('tell in the install since when the customer has paused its agent', async () => {
    const agent = await activeInstall(tenant, 'paused')
    const pausedSince = async () =>
      (await tenant.client.call('installs.get', { params: { ref: 'paused' } })).agent?.pausedSince
    const at = '2026-11-15T12:00:00.000Z'
    for (const [index, action] of (['agent.paused', 'agent.swept', 'agent.resumed'] as const).entries()) {
      agent.send(event(agent, index + 1, { action, at }))
      await agent.next('event.ack', (f) => f.seq === index + 1)
      expect(await pausedSince()).toBe(action === 'agent.resumed' ? null : at)
    }
    await agent.close()
  })

  it('are written in the words of a later agent, which the catalogue does not have', async () => {
    const agent = await idleAgent(tenant)
    agent.send(event(agent, 1, { action: 'agent.levitated' }))
    await agent.next('event.ack', (f) => f.seq === 1)
    await until('written', async () =>
      (await auditOf(tenant, 'server', agent.identity.agentId)).includes('agent.levitated ok'),
    )
    expect(await auditProblems(tenant)).toEqual([])
    await agent.close()
  })

  it('that another signed are not taken', async () => {
    const agent = await idleAgent(tenant)
    const { type, event: signed } = event(agent, 1)
    agent.send({ type, event: { ...signed, signature: 'AAAA' } })
    expect(await agent.next('reject')).toMatchObject({ code: 'bad_signature' })
  })
})

describe('logs', () => {
  let agent: TestAgent
  let held: { jobId: string; fence: number }
  beforeAll(async () => {
    agent = await activeInstall(tenant, 'chatty')
    const run = await tenant.client.call('deploys.create', { params: { ref: 'chatty' }, body: {} })
    const assign = await agent.next('job.assign', (f) => manifestOf(f).jobId === run.steps[0]!.jobId)
    held = { jobId: manifestOf(assign).jobId, fence: manifestOf(assign).fence }
    agent.send(startedFrame(held))
  })

  const bulk = (stream: number, offset: number, payload: Uint8Array) =>
    agent.sendRaw(encodeBulk({ kind: BULK_LOG, stream, offset, payload }))
  const stored = async () => {
    const response = await tenant.client.call('jobs.logs', { params: { id: held.jobId }, query: {} })
    return Buffer.from(await response.arrayBuffer())
  }
  const reconnect = async () => {
    await agent.close()
    const inventory = [{ ...held, state: 'running' as const }]
    agent = await connectAgent(tenant.url, agent.identity, { inventory })
  }

  it('are stored in order, once, and acknowledged when they are', async () => {
    const bytes = randomBytes(200_000)
    agent.send({ type: 'log.open', stream: 5, ...held })
    expect(await agent.next('log.ack')).toMatchObject({ stream: 5, offset: 0 })
    for (let at = 0; at < bytes.length; at += 50_000) bulk(5, at, bytes.subarray(at, at + 50_000))
    bulk(5, 100_000, bytes.subarray(100_000, 150_000))
    await agent.next('log.ack', (f) => f.offset === bytes.length)
    expect(Buffer.compare(await stored(), bytes)).toBe(0)
    await reconnect()
    agent.send({ type: 'log.open', stream: 1, ...held })
    expect(await agent.next('log.ack')).toMatchObject({ offset: bytes.length })
  })

  it('can be followed while they come, from any offset', async () => {
    const before = (await stored()).length
    const response = await tenant.client.call('jobs.logs', {
      params: { id: held.jobId },
      query: { offset: before, follow: '1' },
    })
    const reader = response.body!.getReader()
    bulk(1, before, Buffer.from('hello '))
    bulk(1, before + 6, Buffer.from('world'))
    let seen = ''
    while (seen !== 'hello world') seen += Buffer.from((await reader.read()).value!).toString()
    expect(seen).toBe('hello world')
    await reader.cancel()
  })

  it('with a gap end the connection, and what was acknowledged is kept', async () => {
    const before = (await stored()).length
    bulk(1, before + 100, Buffer.from('too early'))
    expect(await agent.next('reject')).toMatchObject({ code: 'out_of_order' })
    expect((await stored()).length).toBe(before)
    await reconnect()
  })

  it('past the window end the connection', async () => {
    const before = (await stored()).length
    agent.send({ type: 'log.open', stream: 2, ...held })
    await agent.next('log.ack')
    const piece = randomBytes(60_000)
    for (let at = 0; at < 6 * LOG_WINDOW; at += piece.length) bulk(2, before + at, piece)
    bulk(2, before + 100 * LOG_WINDOW, piece)
    expect(await agent.next('reject')).toMatchObject({ code: 'out_of_order' })
    await reconnect()
  })

  it('of one job have one writer: a newer stream takes over', async () => {
    const before = (await stored()).length
    agent.send({ type: 'log.open', stream: 10, ...held })
    agent.send({ type: 'log.open', stream: 11, ...held })
    await agent.next('log.ack', (f) => f.stream === 11)
    bulk(10, before, Buffer.from('from the old one'))
    bulk(11, before, Buffer.from('from the new one'))
    await agent.next('log.ack', (f) => f.stream === 11 && f.offset > before)
    expect((await stored()).subarray(before).toString()).toBe('from the new one')
    agent.send({ type: 'log.end', stream: 11, bytes: before + 16 })
  })
})

/** The same turn of the server that gives jobs again. */
async function leasesRenewed({ client }: TestTenant, agent: TestAgent, jobId: string): Promise<void> {
  const leaseUntil = async () => (await client.call('jobs.get', { params: { id: jobId } })).leaseUntil!
  const before = await leaseUntil()
  agent.send(heartbeat)
  await until('renewed', async () => (await leaseUntil()) > before)
}
