import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { auditOf } from '../testing/audit.ts'
import {
  connectAgent,
  enrolTestAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp } from '../testing/world.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
  await builtApp(tenant)
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

describe('what an agent says of another install’s job', () => {
  it('is noted in its own chain, and not in that of the other', async () => {
    const owner = await activeInstall(tenant, 'owner')
    const installId = owner.identity.installId!
    await tenant.client.call('deploys.create', { params: { ref: 'owner' }, body: { components: ['db'] } })
    const { jobId: id, fence } = manifestOf(await owner.next('job.assign'))
    owner.send(startedFrame({ jobId: id, fence }))
    const status = async () => (await tenant.client.call('jobs.get', { params: { id } })).status
    await until('running', async () => (await status()) === 'running', 30_000)
    const stranger = await activeInstall(tenant, 'stranger')
    const own = stranger.identity.installId!
    const before = await auditOf(tenant, installId)
    stranger.send(finishedFrame(stranger.identity, { jobId: id, fence }))
    await stranger.next('job.settled', (f) => f.jobId === id)
    stranger.send({ type: 'credential.request', requestId: 3, jobId: id, fence, want: 'registry' })
    await stranger.next('credential.refused', (f) => f.requestId === 3)
    expect(await auditOf(tenant, own, id)).toEqual(['job.stale_report refused', 'credential.refused refused'])
    expect(await auditOf(tenant, installId)).toEqual(before)
    expect(await status()).toBe('running')
    await Promise.all([stranger.close(), owner.close()])
  })
})

describe('a build', () => {
  it('that names an artifact elsewhere than its manifest says has failed', async () => {
    const { client, url } = tenant
    const { joinToken } = await client.call('agents.joinToken', { body: { role: 'build' } })
    const builder = await connectAgent(url, await enrolTestAgent(url, joinToken))
    const source = await client.call('sources.put', { body: new TextEncoder().encode('a source of its own') })
    expect(await auditOf(tenant, 'server', `tenon/sources@${source.digest}`)).toEqual(['source.stored ok'])
    const { builds } = await client.call('builds.create', {
      params: { ref: 'shop' },
      body: { components: [{ name: 'db', source: source.digest }] },
    })
    const assigned = manifestOf(await builder.next('job.assign'))
    const result = { digest: `sha256:${'a'.repeat(64)}`, repository: 'apps/shop/web' }
    builder.send(startedFrame(assigned))
    builder.send(finishedFrame(builder.identity, assigned, { result }))
    await builder.next('job.settled')
    const build = await client.call('builds.get', { params: { id: builds[0]!.id } })
    expect(build).toMatchObject({ status: 'failed' })
    expect(build.message).toContain('named an artifact in apps/shop/web, but its manifest says apps/shop/db')
    await builder.close()
  })
})
