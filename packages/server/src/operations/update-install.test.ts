import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { plannedWorld } from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { component } from '../testing/world.ts'

const input = (name: string) =>
  ({
    name,
    displayName: '',
    description: '',
    group: '',
    required: false,
    internal: false,
    type: 'number',
    sensitive: false,
    userConfigurable: true,
  }) as const

describe('inputs of an install', () => {
  let server: TestTenant

  beforeAll(async () => {
    server = await startTestTenant()
  })
  afterAll(() => server.stop())

  const update = async (ref: string, inputs: { [name: string]: number | null }) => {
    const { install } = await server.client.call('installs.update', { params: { ref }, body: { inputs } })
    return install.inputs
  }

  it('that the app no longer asks for stay until somebody takes them back', async () => {
    const world = await plannedWorld(server, [component('one')], { inputs: [input('size'), input('old')] })
    expect(await update(world.name, { size: 1, old: 1 })).toEqual({ size: 1, old: 1 })
    const app = { name: world.name, displayName: '', description: '', components: [component('one')] }
    await server.client.call('apps.sync', { body: { app: { ...app, inputs: [input('size')] } } })
    expect(await update(world.name, { size: 2 })).toEqual({ size: 2, old: 1 })
    await expect(update(world.name, { old: 3 })).rejects.toMatchObject({ code: 'bad_request' })
    expect(await update(world.name, { old: null })).toEqual({ size: 2 })
    await world.close()
  })

  it('are refused by an app that has none', async () => {
    const world = await plannedWorld(server, [component('one')])
    await expect(update(world.name, { size: 1 })).rejects.toMatchObject({
      code: 'bad_request',
      problems: [{ path: 'inputs.size', message: 'the app has no such input' }],
    })
    await world.close()
  })
})
