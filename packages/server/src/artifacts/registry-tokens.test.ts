import { ANNOTATIONS, parseEntry, type AuditEntry } from '@tenon/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeRefusals } from '../audit/refusals.ts'
import { entriesOf } from '../testing/audit.ts'
import { rawRegistry, redeem } from '../testing/raw-registry.ts'
import {
  connectAgent,
  enrolTestAgent,
  eventFrame,
  finishedFrame,
  manifestOf,
  startedFrame,
  type TestAgent,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, installAgent, newInstall } from '../testing/world.ts'

const REPOSITORY = 'apps/shop/web'

describe('access to the vendor registry', () => {
  let tenant: TestTenant
  let one: TestAgent
  let two: TestAgent
  let built: Awaited<ReturnType<typeof buildOnce>>
  let requests = 0

  beforeAll(async () => {
    tenant = await startTestTenant({ leaseSeconds: 600, heartbeatSeconds: 60 })
    built = await buildOnce()
    await newInstall(tenant.client, 'one')
    one = await installAgent(tenant, 'one')
    await newInstall(tenant.client, 'two')
    two = await installAgent(tenant, 'two')
  })
  afterAll(() => tenant.stop())

  async function credential(agent: TestAgent, job: { jobId: string; fence: number }) {
    const requestId = ++requests
    agent.send({
      type: 'credential.request',
      requestId,
      jobId: job.jobId,
      fence: job.fence,
      want: 'registry',
    })
    const { credential: given } = await agent.next('credential.grant', (f) => f.requestId === requestId)
    if (given.want !== 'registry') throw new Error('another credential came')
    return given
  }

  /** A build as its job does it: an artifact with an image in its closure, one beside it, and a signature. */
  async function buildOnce() {
    const { client, url } = tenant
    await client.call('apps.sync', {
      body: { app: { name: 'shop', displayName: 'shop', description: '', components: [component('web')] } },
    })
    const { joinToken } = await client.call('agents.joinToken', { body: { role: 'build' } })
    const builder = await connectAgent(url, await enrolTestAgent(url, joinToken))
    const source = await client.call('sources.put', { body: new TextEncoder().encode('a source') })
    const other = await client.call('sources.put', { body: new TextEncoder().encode('another source') })
    await client.call('builds.create', {
      params: { ref: 'shop' },
      body: { components: [{ name: 'web', source: source.digest }] },
    })
    const job = manifestOf(await builder.next('job.assign'))
    builder.send({ type: 'job.accepted', jobId: job.jobId, fence: job.fence })
    builder.send(startedFrame(job))
    const given = await credential(builder, job)
    const registry = rawRegistry(url, given.bearer)
    const image = await registry.push(REPOSITORY, 'an image')
    const beside = await registry.push(REPOSITORY, 'another build')
    const closure = JSON.stringify([{ image: 'redis:7', digest: image.digest }])
    const artifact = await registry.push(REPOSITORY, 'the artifact', {
      annotations: { [ANNOTATIONS.closure]: closure },
    })
    const { digest, mediaType, size } = artifact
    const signature = await registry.push(REPOSITORY, 'a signature', { subject: { digest, mediaType, size } })
    const reach = {
      source: await registry.get(`tenon/sources/manifests/${source.digest}`),
      otherSource: await registry.get(`tenon/sources/manifests/${other.digest}`),
      push: artifact.status,
      pushElsewhere: (await registry.push('apps/shop/db', 'x')).status,
    }
    builder.send(finishedFrame(builder.identity, job, { result: { digest, repository: REPOSITORY } }))
    await builder.next('job.settled')
    return { artifact, image, beside, signature, reach, bearer: given.bearer, builder, job }
  }

  /** The sync that is with the agent; the same one while it is not finished. */
  async function syncJob(agent: TestAgent) {
    const assigned = await until('a sync', () => {
      const frames = agent.frames.filter((f) => f.type === 'job.assign').map((f) => manifestOf(f))
      return frames.findLast(({ kind }) => kind === 'sync')
    })
    return assigned
  }

  async function pullBearer(agent: TestAgent) {
    const { oneTime } = await credential(agent, await syncJob(agent))
    const { status, bearer, expiresIn } = await redeem(tenant.url, oneTime!)
    expect(status).toBe(200)
    expect(expiresIn).toBeLessThanOrEqual(300)
    return bearer
  }

  const facts = async (install: string, action: string) => {
    const entries = (await entriesOf(tenant, install)).map(({ body }) => parseEntry(body) as AuditEntry)
    return entries.filter((entry) => entry.action === action).map(({ details }) => details)
  }
  const refusal = (agent: TestAgent, reason: string, more: object = {}) =>
    until(`a refusal for ${reason}`, async () =>
      (await facts(agent.identity.installId!, 'registry.token_refused')).find((details) =>
        Object.entries({ reason, ...more }).every(([key, value]) => details[key] === value),
      ),
    )

  it('lets a build read its source and push to its own repository, and nothing else', () => {
    expect(built.reach).toEqual({ source: 200, otherSource: 403, push: 201, pushElsewhere: 403 })
  })

  it('takes nothing more from a build that has ended', async () => {
    const registry = rawRegistry(tenant.url, built.bearer)
    const refused = until('a refusal', async () => (await registry.get(`${REPOSITORY}/tags/list`)) === 401)
    expect(await refused).toBe(true)
  })

  it('gives a sync one token for one bearer, which reaches the closure of its artifacts', async () => {
    const registry = rawRegistry(tenant.url, await pullBearer(one))
    const { artifact, image, signature } = built
    const plugin = (await syncJob(one)).operations[0]!.artifacts.find(({ name }) => name === 'plugin')!
    for (const path of [
      `${REPOSITORY}/manifests/${artifact.digest}`,
      `${REPOSITORY}/blobs/${artifact.layer}`,
      `${REPOSITORY}/manifests/${image.digest}`,
      `${REPOSITORY}/blobs/${image.layer}`,
      `${REPOSITORY}/referrers/${artifact.digest}`,
      `${REPOSITORY}/manifests/${signature.digest}`,
      `${REPOSITORY}/blobs/${signature.layer}`,
      `${plugin.repository}/manifests/${plugin.digest}`,
      `${plugin.repository}/referrers/${plugin.digest}`,
    ])
      expect([path, await registry.get(path)]).toEqual([path, 200])
    const installId = one.identity.installId!
    const roots = [`${plugin.repository}@${plugin.digest}`, `${REPOSITORY}@${artifact.digest}`]
    const issued = await facts(installId, 'registry.token_issued')
    expect(issued.at(-1)).toMatchObject({ fence: 1, roots: expect.arrayContaining(roots) })
    expect(await facts(installId, 'registry.token_redeemed')).not.toEqual([])
  })

  it('refuses another digest of the same repository, a listing, and a push, and writes each down', async () => {
    const registry = rawRegistry(tenant.url, await pullBearer(one))
    const { beside } = built
    expect(await registry.get(`${REPOSITORY}/manifests/${beside.digest}`)).toBe(403)
    expect(await registry.get(`${REPOSITORY}/blobs/${beside.layer}`)).toBe(403)
    expect(await registry.get(`${REPOSITORY}/tags/list`)).toBe(403)
    expect((await registry.push(REPOSITORY, 'mine')).status).toBe(403)
    await refusal(one, 'not_granted', { action: 'pull', digest: beside.digest })
    await refusal(one, 'not_granted', { action: 'push', repository: REPOSITORY })
  })

  it('refuses a token the second time, and gives another while the lease holds', async () => {
    const { oneTime } = await credential(one, await syncJob(one))
    expect((await redeem(tenant.url, oneTime!)).status).toBe(200)
    expect((await redeem(tenant.url, oneTime!)).status).toBe(401)
    await refusal(one, 'used')
    expect(await pullBearer(one)).not.toBe('')
  })

  it('redeems a token once though many try at the same time', async () => {
    const { oneTime } = await credential(one, await syncJob(one))
    const answers = await Promise.all(Array.from({ length: 8 }, () => redeem(tenant.url, oneTime!)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([
      200,
      ...Array.from({ length: 7 }, () => 401),
    ])
  })

  it('refuses the token of another install', async () => {
    const { oneTime } = await credential(one, await syncJob(one))
    const other = await syncJob(two)
    expect((await redeem(tenant.url, { ...oneTime!, username: other.jobId })).status).toBe(401)
    await refusal(one, 'other_job')
    expect(
      (await redeem(tenant.url, { username: other.jobId, password: `tenon-once-${'x'.repeat(43)}` })).status,
    ).toBe(401)
    const frame = { type: 'credential.request' as const, requestId: ++requests, want: 'registry' as const }
    const { jobId, fence } = await syncJob(one)
    two.send({ ...frame, jobId, fence })
    expect(await two.next('credential.refused')).toMatchObject({ requestId: requests })
  })

  it('refuses an expired token and an expired bearer', async () => {
    const job = await syncJob(one)
    const { oneTime } = await credential(one, job)
    await tenant.context.pool.query(
      `update registry_token set expires_at = now() - interval '1 second' where job_id = $1 and redeemed_at is null`,
      [job.jobId],
    )
    expect((await redeem(tenant.url, oneTime!)).status).toBe(401)
    await refusal(one, 'expired')
    const grant = { subject: `${job.jobId}#${job.fence}`, repositories: [] }
    const old = tenant.context.registry.issueToken(grant, 300, Date.now() - 301_000)
    expect(await rawRegistry(tenant.url, old).get(`${REPOSITORY}/manifests/${built.artifact.digest}`)).toBe(
      401,
    )
    await refusal(one, 'expired', { repository: REPOSITORY })
  })

  it('writes few rows about a dead token and a dead bearer, however often and for what they are tried', async () => {
    const job = await syncJob(one)
    const { oneTime } = await credential(one, job)
    const grant = { subject: `${job.jobId}#${job.fence}`, repositories: [] }
    const old = tenant.context.registry.issueToken(grant, 300, Date.now() - 301_000)
    expect((await redeem(tenant.url, oneTime!)).status).toBe(200)
    const { length: before } = await facts(one.identity.installId!, 'registry.token_refused')
    for (let n = 0; n < 40; n++) {
      const digest = `sha256:${String(n).padStart(64, '0')}`
      const [again, pulled] = await Promise.all([
        redeem(tenant.url, oneTime!),
        rawRegistry(tenant.url, old).get(`apps/a-${n}/blobs/${digest}`),
      ])
      expect([again.status, pulled]).toEqual([401, 401])
    }
    await writeRefusals(tenant.context, true)
    const entries = await facts(one.identity.installId!, 'registry.token_refused')
    expect(entries.length - before).toBeLessThanOrEqual(4)
    const counted = entries.slice(before).map(({ more }) => more ?? 1) as number[]
    expect(counted.reduce((sum, each) => sum + each, 0)).toBeGreaterThanOrEqual(80)
  })

  it('keeps no token in clear', async () => {
    const { oneTime } = await credential(one, await syncJob(one))
    const { rows } = await tenant.context.pool.query('select * from registry_token')
    expect(JSON.stringify(rows)).not.toContain(oneTime!.password.slice(-20))
  })

  it('refuses token and bearer once the fencing number has moved on', async () => {
    const before = await syncJob(two)
    const { oneTime } = await credential(two, before)
    const bearer = await pullBearer(two)
    const path = `${REPOSITORY}/manifests/${built.artifact.digest}`
    expect(await rawRegistry(tenant.url, bearer).get(path)).toBe(200)
    // It never said that it took the job, and comes back without it: the job goes to the queue again.
    const { identity } = two
    await two.close()
    two = await connectAgent(tenant.url, identity, { bootCounter: 2, bootId: 'the second start of two' })
    const after = await syncJob(two)
    expect(after.fence).toBeGreaterThan(before.fence)
    expect((await redeem(tenant.url, oneTime!)).status).toBe(401)
    await refusal(two, 'lease')
    await until(
      'a refusal of the bearer',
      async () => (await rawRegistry(tenant.url, bearer).get(path)) === 401,
    )
    await refusal(two, 'ended', { fence: before.fence })
    expect(await rawRegistry(tenant.url, await pullBearer(two)).get(path)).toBe(200)
  })

  const ENDS = {
    'was ended': (agent: TestAgent) =>
      tenant.client.call('agents.revoke', { params: { id: agent.identity.agentId } }),
    'was given up and replaced': async (agent: TestAgent, install: string) => {
      const released = {
        seq: 1,
        at: new Date().toISOString(),
        action: 'agent.released',
        details: {},
      } as const
      agent.send(eventFrame(agent.identity, { ...released, jobId: null }))
      await agent.next('event.ack')
      const { joinToken } = await tenant.client.call('installs.joinToken', { params: { ref: install } })
      await enrolTestAgent(tenant.url, joinToken)
    },
  }
  it.each(Object.entries(ENDS))(
    'takes no token and no bearer of an agent that %s, though its job still runs',
    async (install, end) => {
      await newInstall(tenant.client, install.replaceAll(' ', '-'))
      const agent = await installAgent(tenant, install.replaceAll(' ', '-'))
      const job = await syncJob(agent)
      agent.send({ type: 'job.accepted', jobId: job.jobId, fence: job.fence })
      agent.send(startedFrame(job))
      const { oneTime } = await credential(agent, job)
      const bearer = await pullBearer(agent)
      await end(agent, install.replaceAll(' ', '-'))
      expect((await redeem(tenant.url, oneTime!)).status).toBe(401)
      const path = `${REPOSITORY}/manifests/${built.artifact.digest}`
      await until(
        'a refusal of the bearer',
        async () => (await rawRegistry(tenant.url, bearer).get(path)) === 401,
        10_000,
      )
    },
  )
})
