import type { JobManifest } from '@tenon/core'
import { BULK_LOG, createClient, encodeBulk, type Client } from '@tenon/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startedFrame, manifestOf, type TestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestServer, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { builtApp, installAgent, newInstall } from '../testing/world.ts'

/** Hints travel at once, the poll comes every two seconds; this is neither's speed on an idle machine. */
const WITHIN_MS = 15_000

let a: TestTenant
let b: TestServer
let agent: TestAgent
let job: JobManifest
let runId: string

beforeAll(async () => {
  a = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
  b = await a.another()
  await builtApp(a)
  const { run } = await newInstall(a.client, 'acme')
  runId = run.id
  agent = await installAgent(a, 'acme')
  job = manifestOf(await agent.next('job.assign'))
  agent.send({ type: 'job.accepted', jobId: job.jobId, fence: job.fence })
  agent.send(startedFrame(job))
})
afterAll(async () => {
  await agent.close()
  await a.stop()
})
afterEach(async () => {
  await a.assertSound()
  await b.assertSound()
})

const OPENED = {
  'a followed log': (client: Client) =>
    client.call('jobs.logs', { params: { id: job.jobId }, query: { follow: '1' } }),
  'a watched run': (client: Client) => client.call('runs.watch', { params: { id: runId } }),
}

/** A stream on the other process than the one on which things change. */
async function openStream(open: (client: Client) => Promise<Response>) {
  const { secret, token } = await a.client.call('tokens.create', { body: { name: 'reader', role: 'viewer' } })
  const response = await open(createClient({ url: b.url, token: secret }))
  let isOpen = true
  const ended = (async () => {
    try {
      for await (const _ of response.body ?? []);
    } catch {
      // A stream that is cut shows as an error.
    } finally {
      isOpen = false
    }
  })()
  const change = (sql: string) =>
    a.context.pool.query(`update api_token set ${sql} where id = $1`, [token.id])
  return { id: token.id, ended, change, isOpen: () => isOpen }
}

const endsSoon = (stream: { isOpen(): boolean }) =>
  until('the end of the stream', () => !stream.isOpen(), WITHIN_MS)

describe.each(Object.entries(OPENED))('%s', (_, open) => {
  it('goes on for who may read it, and ends on every process when the token is revoked', async () => {
    const [mine, other] = [await openStream(open), await openStream(open)]
    await a.client.call('tokens.revoke', { params: { id: mine.id } })
    await endsSoon(mine)
    expect(other.isOpen()).toBe(true)
    await a.client.call('tokens.revoke', { params: { id: other.id } })
    await endsSoon(other)
  })

  it('ends when the hint is lost too, and when the time of the token is over', async () => {
    const [silent, old] = [await openStream(open), await openStream(open)]
    await silent.change('revoked_at = now()')
    await old.change('expires_at = now()')
    expect(await Promise.all([endsSoon(silent), endsSoon(old)])).toEqual([true, true])
  })
})

/** Revoked on the other process than the one that it is connected to. */
it.each(['is revoked', 'is replaced, of which no hint came'])(
  'what an agent sends, and a followed log of it, ends when the agent %s',
  async (how) => {
    const install = how.replaceAll(/[ ,]+/g, '-')
    await newInstall(a.client, install)
    const sender = await installAgent(a, install)
    const { jobId, fence } = manifestOf(await sender.next('job.assign'))
    sender.send({ type: 'job.accepted', jobId, fence })
    sender.send(startedFrame({ jobId, fence }))
    sender.send({ type: 'log.open', stream: 1, jobId, fence })
    const write = (offset: number) =>
      sender.sendRaw(encodeBulk({ kind: BULK_LOG, stream: 1, offset, payload: Buffer.from('0123456789') }))
    await sender.next('log.ack', ({ offset }) => offset === 0)
    write(0)
    await sender.next('log.ack', ({ offset }) => offset === 10)
    const followed = await openStream((client) =>
      client.call('jobs.logs', { params: { id: jobId }, query: { follow: '1' } }),
    )
    const { agentId: id } = sender.identity
    if (how === 'is revoked') await b.client.call('agents.revoke', { params: { id } })
    else await a.context.pool.query(`update agent set status = 'replaced' where id = $1`, [id])
    await endsSoon(followed)
    await sender.ended
    write(10)
    expect(await (await a.client.call('jobs.logs', { params: { id: jobId } })).text()).toBe('0123456789')
  },
)

it('an upload ends when the role of its token is not enough any more', async () => {
  const { secret, token } = await a.client.call('tokens.create', { body: { name: 'ci', role: 'operator' } })
  let push: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({ start: (controller) => void (push = controller) })
  push!.enqueue(new Uint8Array(1024))
  const sent = createClient({ url: b.url, token: secret })
    .call('sources.put', { body })
    .then(
      () => 'taken',
      () => 'cut',
    )
  await until('the upload to be used', async () => {
    const { items } = await a.client.call('tokens.list', {})
    return items.find(({ id }) => id === token.id)?.lastUsedAt
  })
  await a.context.pool.query(`update api_token set role = 'viewer' where id = $1`, [token.id])
  expect(await sent).toBe('cut')
})
