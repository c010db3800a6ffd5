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

  it('keeps what it removed away until it is switched on again, also what cannot be switched', async () => {
    const parts = [toggled('db'), component('web', ['db']), component('lone')]
    const { name, close, deploy } = await plannedWorld(server, parts)
    const update = async (toggles: { [name: string]: boolean }, withDependents = false) => {
      const body = { toggles, withDependents }
      const { runs } = await server.client.call('installs.update', { params: { ref: name }, body })
      return Promise.all(runs.map(({ id }) => ended(server.client, id)))
    }
    await update({ db: false }, true)
    const { id } = await deploy()
    expect((await ended(server.client, id)).steps.map(({ key }) => key)).toEqual(['sync:lone', 'deploy:lone'])
    expect(await shown(name)).toMatchObject({ there: ['lone'] })
    await expect(deploy({ components: ['web'] })).rejects.toMatchObject({
      code: 'wrong_state',
      remedy: expect.stringContaining('what it stands on'),
    })
    await update({ db: true })
    expect(await shown(name)).toMatchObject({ there: ['db', 'lone', 'web'] })
    await expect(update({ db: false })).rejects.toMatchObject({ code: 'has_dependents' })
    await close()
  })

  it('is refused naming only what it switches off and is there', async () => {
    const never = { ...toggled('never'), settings: { toggleable: true, defaultEnabled: false } }
    const { name, close } = await plannedWorld(server, [
      never,
      toggled('cache'),
      toggled('db'),
      component('web', ['db', 'never']),
    ])
    const params = { ref: name }
    const off = (toggles: { [name: string]: boolean }) =>
      server.client.call('installs.update', { params, body: { toggles, deploy: false } })
    await off({ cache: false })
    // Also what waits for the next deploy; and what comes after it is not held up.
    await expect(off({ db: false })).rejects.toMatchObject({
      message: 'without db these would go too: web',
    })
    const { runs } = await server.client.call('installs.update', { params, body: { approval: 'prompt' } })
    for (const run of runs) await ended(server.client, run.id)
    expect(await shown(name)).toEqual({ there: ['db', 'web'], toggles: { cache: false } })
    await close()
  })

  it('is refused while a run is about to deploy what stands on it', async () => {
    const { name, close, deploy, prompt } = await plannedWorld(server, [
      toggled('db'),
      component('web', ['db']),
    ])
    const params = { ref: name }
    const { id } = await server.client.call('installs.teardown', { params, body: { components: ['web'] } })
    await ended(server.client, id)
    await prompt()
    const waiting = await deploy({ components: ['web'] })
    const off = (withDependents: boolean) =>
      server.client.call('installs.update', { params, body: { toggles: { db: false }, withDependents } })
    for (const withDependents of [false, true])
      await expect(off(withDependents)).rejects.toMatchObject({
        code: 'wrong_state',
        message: `run ${waiting.id} is about to deploy web, which stands on db`,
      })
    await server.client.call('runs.cancel', { params: { id: waiting.id } })
    await ended(server.client, waiting.id)
    const { runs } = await off(false)
    await ended(server.client, runs[0]!.id)
    expect((await shown(name)).there).toEqual([])
    await close()
  })

  it('that the app does by itself removes nothing from under what stays', async () => {
    const { name, close } = await plannedWorld(server, [toggled('db'), component('web', ['db'])])
    const components = [
      { ...toggled('db'), settings: { toggleable: true, defaultEnabled: false } },
      component('web', ['db']),
    ]
    await server.client.call('apps.sync', {
      body: { app: { name, displayName: '', description: '', components } },
    })
    const body = { approval: 'prompt' as const }
    expect(await server.client.call('installs.update', { params: { ref: name }, body })).toMatchObject({
      runs: [],
    })
    expect((await shown(name)).there).toEqual(['db', 'web'])
    await close()
  })

  it('leaves alone what was switched before the app stopped letting it', async () => {
    const { name, close } = await plannedWorld(server, [toggled('db'), component('web')])
    const update = (body: object) => server.client.call('installs.update', { params: { ref: name }, body })
    const { runs } = await update({ toggles: { db: false } })
    await ended(server.client, runs[0]!.id)
    const components = [component('db'), component('web')]
    await server.client.call('apps.sync', {
      body: { app: { name, displayName: '', description: '', components } },
    })
    await expect(update({ approval: 'prompt' })).resolves.toBeDefined()
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
