import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { broken, only, plannedWorld, runsOf } from '../testing/planned-world.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { builtApp, component, ended } from '../testing/world.ts'

let server: TestTenant
let runs: ReturnType<typeof runsOf>

beforeAll(async () => {
  server = await startTestTenant()
  runs = runsOf(server)
})
afterAll(() => server.stop())

/** An install with a run that failed, and a way to have a newer version deployed. */
async function failedWorld() {
  const w = await plannedWorld(server, [component('db'), component('web', ['db'])])
  w.answer((m) => (m.operations[0]?.component === 'db' ? only('deploy', broken)(m) : {}))
  const { id } = await w.deploy()
  await ended(server.client, id)
  w.answer(() => ({}))
  const newer = async (components: string[]) => {
    await builtApp(server, w.name, [{ ...component('db'), config: { size: 2 } }, component('web', ['db'])])
    const run = await w.deploy({ components })
    expect((await ended(server.client, run.id)).status).toBe('succeeded')
    return run.id
  }
  return { ...w, failed: id, newer }
}

const installed = async (name: string) =>
  (await server.client.call('installs.get', { params: { ref: name } })).components

describe('a step of an old run', () => {
  it('is not retried over a newer version, and the refusal names both and what to do', async () => {
    const w = await failedWorld()
    const by = await w.newer(['db'])
    const before = await installed(w.name)
    await expect(runs.on('retry', w.failed, 'deploy:db')).rejects.toMatchObject({
      code: 'wrong_state',
      message: `run ${by} has brought db of version 2 since; this run would bring version 1 back`,
      remedy: expect.stringContaining(`tenon deploy ${w.name} db`) as unknown,
    })
    expect((await runs.run(w.failed)).status).toBe('failed')
    expect(await installed(w.name)).toEqual(before)
    await w.close()
  })

  it('is not skipped either where what follows it would bring something older back', async () => {
    const w = await failedWorld()
    await w.newer(['web'])
    await expect(runs.on('skip', w.failed, 'deploy:db')).rejects.toMatchObject({
      code: 'wrong_state',
      message: expect.stringContaining('has brought web of version 2 since') as unknown,
    })
    expect(await runs.statuses(w.failed)).toMatchObject({ 'deploy:db': 'failed', 'deploy:web': 'canceled' })
    await w.close()
  })

  it('is not retried over another build of the same version either, which is named', async () => {
    const w = await failedWorld()
    await builtApp(server, w.name, [component('db'), component('web', ['db'])])
    const by = await w.deploy({ components: ['db'] })
    await ended(server.client, by.id)
    await expect(runs.on('retry', w.failed, 'deploy:db')).rejects.toMatchObject({
      message: expect.stringMatching(
        new RegExp(
          `^run ${by.id} has brought another build of db \\(bld_\\w+\\) since; .* bring bld_\\w+ back$`,
        ),
      ) as unknown,
    })
    await w.close()
  })

  it('is retried where nothing else came since', async () => {
    const w = await failedWorld()
    await runs.on('retry', w.failed, 'deploy:db')
    expect(await runs.statuses(w.failed)).toMatchObject({
      'deploy:db': 'succeeded',
      'deploy:web': 'succeeded',
    })
    await w.close()
  })
})
