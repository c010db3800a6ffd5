import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { action, planned, plannedWorld, runsOf } from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'

describe('declared egress', () => {
  let server: TestTenant

  beforeAll(async () => {
    server = await startTestTenant()
  })
  afterAll(() => server.stop())

  it('is in the manifests of the jobs of that component and that action, and in no other', async () => {
    const { client } = server
    const egress = (host: string) => ({ egress: [{ host, port: 443 }] })
    const w = await plannedWorld(
      server,
      [planned('db', { settings: egress('*.db.example') }), planned('web')],
      {
        actions: [
          { ...action('calls', [{ type: 'manual' }]), ...egress('hooks.example') },
          action('plain', [{ type: 'manual' }]),
        ],
      },
    )
    await runsOf(server).statuses((await w.deploy()).id)
    for (const name of ['calls', 'plain'])
      await runsOf(server).statuses((await client.call('actions.run', { params: { ref: w.name, name } })).id)
    const torn = await client.call('installs.teardown', { params: { ref: w.name }, body: {} })
    await runsOf(server).statuses(torn.id)
    const found = w.seen
      .filter(({ kind }) => kind !== 'sync')
      .map(({ kind, operations, network, requires }) => [
        `${kind} ${operations[0]!.component}`,
        network.names.join(),
        requires.map(({ feature }) => feature).join(),
      ])
    const open = ['', '']
    const db = ['*.db.example:443', 'job-networks']
    expect(Object.fromEntries(found.map(([job, ...rest]) => [job, rest]))).toMatchObject({
      'plan db': db,
      'deploy db': db,
      'destroy db': db,
      'plan web': open,
      'deploy web': open,
      'destroy web': open,
    })
    expect(found.filter(([job]) => job?.startsWith('action')).map(([, ...rest]) => rest)).toEqual([
      ['hooks.example:443', 'job-networks'],
      open,
    ])
    await w.close()
  }, 60_000)

  it('is refused as what it is not', async () => {
    const components = [planned('db', { settings: { egress: [{ host: 'https://x', port: 443 }] } })]
    const app = { name: 'bad', displayName: 'bad', description: '', components }
    await expect(server.client.call('apps.sync', { body: { app } })).rejects.toMatchObject({
      problems: [
        {
          path: 'body.app.components.0.settings.egress.0.host',
          message: expect.stringContaining('must be a host name'),
        },
      ],
    })
  })
})
