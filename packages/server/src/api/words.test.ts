import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AppInput, JobKind } from '@tenon/core'
import { routes, type Route } from '@tenon/protocol'
import { createJobs } from '../jobs/create.ts'
import { transact } from '../store/transaction.ts'
import { connectAgent, type TestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp } from '../testing/world.ts'

/** What answers say to a person: who and what is meant, by names and not by ids. */

let tenant: TestTenant
let agent: TestAgent

beforeAll(async () => {
  tenant = await startTestTenant({ heartbeatSeconds: 60 })
  await builtApp(tenant, 'shop', undefined, {
    inputs: [input('region', false), input('size', false)],
  })
  agent = await activeInstall(tenant, 'acme')
  await agent.close()
})
afterAll(() => tenant.stop())

const input = (name: string, required: boolean): AppInput => ({
  name,
  displayName: name,
  description: '',
  group: '',
  type: 'string',
  required,
  sensitive: false,
  internal: false,
  userConfigurable: true,
})

function queue(...kinds: JobKind[]): Promise<string[]> {
  const plugin = { name: 'script', repository: 'plugins/script', digest: null }
  const operation = { operation: 'debug' as const, plugin, component: 'db', artifacts: [], config: {} }
  const operations = [{ ...operation, approvedPlan: null }]
  const { installId } = agent.identity
  const planned = kinds.map((kind) => ({
    plan: { kind, role: 'install' as const, installId, operations },
    owner: {},
  }))
  return transact(tenant.context, async (tx) => createJobs(tenant.context, tx, planned))
}

const waitsFor = async (id: string) =>
  (await tenant.client.call('jobs.get', { params: { id } })).waiting?.message

const ask = (authorization?: string) =>
  fetch(`${tenant.url}/api/v1/apps`, authorization === undefined ? {} : { headers: { authorization } })
const saidTo = async (authorization?: string) =>
  ((await (await ask(authorization)).json()) as { error: { message: string } }).error.message

describe('a token', () => {
  it('that is mistyped is not taken for one that was not sent', async () => {
    expect(await saidTo()).toBe('this needs an API token')
    const mistyped = 'what was sent is no API token: one begins with tenon_ and is longer'
    expect(await saidTo('Bearer tenon_short')).toBe(mistyped)
    expect(await saidTo(`Bearer tenom_${'a'.repeat(40)}`)).toBe(mistyped)
    expect(await saidTo(`Bearer tenon_${'a'.repeat(40)}`)).toBe('this API token is not one of this server')
    const noBearer = 'what was sent as Authorization is not `Bearer` and an API token'
    for (const sent of [`tenon_${'a'.repeat(40)}`, 'Basic dXNlcjp4', 'Bearer'])
      expect(await saidTo(sent)).toBe(noBearer)
  })
})

describe('missing inputs', () => {
  it('are named in the message itself', async () => {
    const components = [{ name: 'web', type: 'script', dependencies: [], config: {} }]
    const app = {
      name: 'asks',
      displayName: 'asks',
      description: '',
      components,
      inputs: [input('region', true), input('size', true)],
    }
    await tenant.client.call('apps.sync', { body: { app } })
    const create = (inputs: Record<string, string>) =>
      tenant.client.call('installs.create', {
        body: { name: 'two', app: 'asks', sandbox: { type: 'none', config: {} }, inputs },
      })
    await expect(create({})).rejects.toThrow('the install needs the inputs region, size')
    await expect(create({ region: 'eu', other: 'x' })).rejects.toThrow(
      'the install needs the input size, and the input other cannot be set so',
    )
  })
})

describe('a name that is not there', () => {
  const failing = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )

  it('is answered with those that are', async () => {
    const params = { ref: 'acme' }
    expect(
      await failing(tenant.client.call('installs.teardown', { params, body: { components: ['wbe'] } })),
    ).toMatchObject({ message: 'not on install acme: wbe', remedy: 'There is: db, web.' })
    expect(
      await failing(tenant.client.call('installs.update', { params, body: { toggles: { wbe: true } } })),
    ).toMatchObject({ message: 'app shop has no component wbe', remedy: 'It has: db, web.' })
  })

  it('is no input to take back to its default', async () => {
    const unset = (name: string) =>
      tenant.client.call('installs.update', {
        params: { ref: 'acme' },
        body: { inputs: { [name]: null }, deploy: false },
      })
    expect(await failing(unset('regoin'))).toMatchObject({ message: 'app shop has no input regoin' })
    expect(await failing(unset('region'))).toBeUndefined()
  })

  it('is answered with a command that lists what there is', async () => {
    const { client, context } = tenant
    const remedyOf = async (work: Promise<unknown>) => ((await failing(work)) as { remedy: string }).remedy
    expect(
      await remedyOf(client.call('agents.revoke', { params: { id: context.newId('agent') } })),
    ).toContain('`tenon agent list`')
    expect(
      await remedyOf(client.call('audit.entries', { params: { chain: 'nope' }, query: { afterSeq: 0 } })),
    ).toContain('`tenon audit list`')
  })
})

describe('jobs and agents', () => {
  it('name their install and component, and jobs are found by component, newest first', async () => {
    const { items } = await tenant.client.call('jobs.list', { query: { install: 'acme', component: 'web' } })
    expect(items.map(({ kind, install, component }) => [kind, install, component])).toEqual([
      ['deploy', 'acme', 'web'],
      ['sync', 'acme', 'web'],
    ])
    const builds = await tenant.client.call('jobs.list', { query: { component: 'db' } })
    expect(builds.items.map(({ kind, install }) => `${kind} ${install}`)).toContain('build null')
    const agents = await tenant.client.call('agents.list', {})
    expect(agents.items.map(({ role, install }) => [role, install])).toEqual([
      ['build', null],
      ['install', 'acme'],
    ])
  })

  it('of a queue each know how many are ahead of them, in their own lane', async () => {
    const options = { bootCounter: 2, bootId: 'the second start of it', slots: 1, interactiveSlots: 1 }
    agent = await connectAgent(tenant.url, agent.identity, options)
    const [first, second, third, debug, later, fourth] = await queue(
      'sync',
      'sync',
      'sync',
      'debug',
      'debug',
      'sync',
    )
    await until('two to be out', async () =>
      (await Promise.all([first!, debug!].map(waitsFor))).every((said) => said?.includes('has it') === true),
    )
    const ahead = async (id: string) => /; (.*)\.$/.exec((await waitsFor(id)) ?? '')?.[1]
    expect(await Promise.all([second!, third!, fourth!, later!].map(ahead))).toEqual([
      'it is the next',
      'one job is ahead',
      '2 jobs are ahead',
      'it is the next',
    ])
    expect(await waitsFor(second!)).toContain('slots of the agent of install acme are busy')
    await agent.close()
  })

  it('are not called connected to a process of the server that died', async () => {
    const { identity } = agent
    const back = await connectAgent(tenant.url, identity, { bootCounter: 3, bootId: 'the third start of it' })
    const isConnected = async () =>
      (await tenant.client.call('agents.list', {})).items.find(({ id }) => id === identity.agentId)?.connected
    expect(await isConnected()).toBe(true)
    const dead = tenant.context.newId('process')
    await tenant.context.db
      .updateTable('agent')
      .set({ process_id: dead })
      .where('id', '=', identity.agentId)
      .execute()
    expect(await isConnected()).toBe(false)
    await back.close()
  })

  it('wait in other words for an agent that was revoked than for one that never came', async () => {
    await tenant.client.call('agents.revoke', { params: { id: agent.identity.agentId } })
    const [id] = await queue('sync')
    expect(await waitsFor(id!)).toBe(
      'No agent is enrolled any more: it needs the agent of install acme, and the one that there was is revoked or replaced.',
    )
    const recipientOf = (ref: string) => tenant.client.call('installs.recipient', { params: { ref } })
    await expect(recipientOf('acme')).rejects.toMatchObject({
      message: 'no agent of install acme is enrolled any more: it is revoked or replaced',
      remedy: 'Start one with a token of `tenon installs join-token acme`.',
    })
    await tenant.client.call('installs.create', {
      body: { name: 'young', app: 'shop', sandbox: { type: 'none', config: {} } },
    })
    await expect(recipientOf('young')).rejects.toThrow('no agent of install young has enrolled yet')
  })
})

interface Described {
  description?: string
  requestBody?: { content: Record<string, unknown> }
  parameters?: { name: string }[]
  responses: Record<string, { content?: Record<string, { schema: unknown }> }>
}

describe('the description of the API', () => {
  const described = async () => {
    const api = (await (await fetch(`${tenant.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, Described & { operationId: string }>>
      components: { schemas: Record<string, unknown> }
    }
    const all = Object.values(api.paths).flatMap((methods) => Object.values(methods))
    return { ...api, of: new Map(all.map((each) => [each.operationId, each])) }
  }

  it('has the errors of every route with their schema', async () => {
    const { of, components } = await described()
    expect(components.schemas['ApiError']).toMatchObject({
      properties: { error: { required: ['code', 'message', 'requestId'] } },
    })
    for (const [name, operation] of of) {
      for (const status of ['400', '401', '403', '429', '500', '503'])
        expect(
          operation.responses[status]?.content?.['application/json']?.schema,
          `${name} ${status}`,
        ).toEqual({
          $ref: '#/components/schemas/ApiError',
        })
    }
    expect(Object.keys(of.get('installs.create')!.responses)).toEqual(
      expect.arrayContaining(['404', '409', '413', '415']),
    )
  })

  it('has the bodies of uploads and streams', async () => {
    const { of } = await described()
    const all = Object.entries(routes) as [string, Route][]
    const uploads = all.filter(([, { body }]) => body === 'bytes')
    const taken = uploads.map(([name]) => of.get(name)!.requestBody?.content)
    expect(taken).toEqual(uploads.map(() => ({ 'application/octet-stream': expect.anything() as unknown })))
    const streams = all.filter(([, { response }]) => response === 'stream')
    const given = streams.map(([name]) => Object.keys(of.get(name)!.responses['200']!.content!))
    expect(given).toEqual(streams.map(([, { media }]) => [media]))
    expect(of.get('runs.watch')!.responses['200']).toMatchObject({
      description: expect.stringContaining(
        'its `data` is one line of JSON: the run as `runs.get` answers it',
      ) as string,
      content: { 'text/event-stream': { schema: { type: 'string' } } },
    })
  })

  it('names the permission that each route takes, and what a call takes that does more', async () => {
    const { of } = await described()
    for (const [name, { permission }] of Object.entries<Route>(routes))
      expect(of.get(name)!.description).toContain(`Takes the permission ${permission}`)
    expect(of.get('installs.joinToken')!.description).toMatch(
      /operate; where the install has .+, administer\./,
    )
  })

  it('lists the values of a list that later servers add to', async () => {
    const { of } = await described()
    expect(JSON.stringify(of.get('agents.revoke')!.responses['200'])).toContain(
      '"examples":["enrolled","replaced","revoked"]',
    )
  })

  it('shows an id of the right kind on each route', async () => {
    const { of } = await described()
    const example = (name: string) => JSON.stringify(of.get(name)!.parameters?.find((p) => p.name === 'id'))
    expect(example('agents.revoke')).toContain('agt_01')
    expect(example('builds.get')).toContain('bld_01')
    expect(example('jobs.get')).toContain('job_01')
    await expect(tenant.client.call('agents.revoke', { params: { id: 'x' } })).rejects.toMatchObject({
      problems: [{ message: 'must be an id such as agt_01…' }],
    })
  })
})
