import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { plannedWorld } from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { component, ended } from '../testing/world.ts'

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

describe('switching a component off', () => {
  let server: TestTenant

  beforeAll(async () => {
    server = await startTestTenant()
  })
  afterAll(() => server.stop())

  const toggled = (name: string, dependencies: string[] = []) => ({
    ...component(name, dependencies),
    settings: { toggleable: true },
  })
  const shown = async (ref: string) => {
    const { components, toggles } = await server.client.call('installs.get', { params: { ref } })
    return { there: components.map(({ name }) => name), toggles }
  }

  it('that others stand on is refused with their names, and nothing is changed', async () => {
    const { name, close } = await plannedWorld(server, [
      toggled('db'),
      component('web', ['db']),
      component('page', ['web']),
    ])
    const off = server.client.call('installs.update', {
      params: { ref: name },
      body: { toggles: { db: false } },
    })
    await expect(off).rejects.toMatchObject({
      code: 'has_dependents',
      message: 'without db these would go too: web, page',
    })
    expect(await shown(name)).toEqual({ there: ['db', 'page', 'web'], toggles: {} })
    await close()
  })

  it('removes with it what stands on it when that is asked for, and switches off what can be', async () => {
    const { name, close } = await plannedWorld(server, [
      toggled('db'),
      toggled('web', ['db']),
      component('page', ['web']),
      component('lone'),
    ])
    const { runs } = await server.client.call('installs.update', {
      params: { ref: name },
      body: { toggles: { db: false }, withDependents: true },
    })
    expect(runs.map(({ kind }) => kind)).toEqual(['teardown'])
    const { steps } = await ended(server.client, runs[0]!.id)
    expect(steps.map(({ key }) => key)).toEqual(['destroy:page', 'destroy:web', 'destroy:db'])
    expect(await shown(name)).toEqual({ there: ['lone'], toggles: { db: false, web: false } })
    await close()
  })

  it('that nothing there stands on is not held up', async () => {
    const { name, close } = await plannedWorld(server, [toggled('db'), toggled('web', ['db'])])
    const body = { toggles: { db: false, web: false } }
    const { runs } = await server.client.call('installs.update', { params: { ref: name }, body })
    await ended(server.client, runs[0]!.id)
    expect((await shown(name)).there).toEqual([])
    await close()
  })
})
