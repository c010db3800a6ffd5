import type { App, JobManifest } from '@tenon/core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startDueActions } from '../schedules/due-actions.ts'
import { action, plannedWorld, runsOf } from '../testing/planned-world.ts'
import { connectAgent, enrolTestAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { component, ended, nothingDue, workAll } from '../testing/world.ts'

const SOURCE = { kind: 'git', repo: 'acme/ops', ref: 'main', directory: 'scripts' } as const
const digestOf = (letter: string) => `sha256:${letter.repeat(64)}`

const backup = (triggers: NonNullable<App['actions']>[number]['triggers'] = [{ type: 'manual' }]) => ({
  ...action('backup', triggers),
  steps: [
    { name: 'plain', inlineContents: 'echo hello' },
    { name: 'fetched', command: './backup.sh', source: SOURCE },
  ],
})

describe('actions with steps in repositories', () => {
  let server: TestTenant

  beforeAll(async () => {
    server = await startTestTenant()
  })
  afterAll(() => server.stop())
  afterEach(() => server.assertSound())

  const world = (actions: App['actions'] = [backup(), action('plain', [])]) =>
    plannedWorld(server, [component('db')], { actions })
  const syncApp = (name: string, actions: NonNullable<App['actions']>) =>
    server.client.call('apps.sync', {
      body: { app: { name, displayName: name, description: '', components: [component('db')], actions } },
    })
  const runAction = (ref: string, name = 'backup') =>
    server.client.call('actions.run', { params: { ref, name } })
  const create = (ref: string, name = 'action:backup') =>
    server.client.call('builds.create', { params: { ref }, body: { components: [{ name, source: null }] } })

  /** A build of the action that a build agent says has made this artifact. */
  async function build(app: string, digest: string, outcome: 'succeeded' | 'failed' = 'succeeded') {
    const { client, url } = server
    const { joinToken } = await client.call('agents.joinToken', { body: { role: 'build' } })
    const builder = await connectAgent(url, await enrolTestAgent(url, joinToken))
    const seen: JobManifest[] = []
    const working = workAll(builder, (manifest) => {
      seen.push(manifest)
      const repository = manifest.operations[0]!.config['repository'] as string
      return { outcome, result: { digest, repository } }
    })
    const { builds } = await create(app)
    const done = await until('the build', async () => {
      const found = await client.call('builds.get', { params: { id: builds[0]!.id } })
      return found.finishedAt !== null && found
    })
    await builder.close()
    await working
    return { build: done, manifest: seen[0]! }
  }

  it('are built for themselves, synced in the run that uses them, and run with what was built', async () => {
    const w = await world()
    const { build: made, manifest } = await build(w.name, digestOf('c'))
    expect(made).toMatchObject({ component: 'action:backup', status: 'succeeded', artifact: digestOf('c') })
    const repository = `apps/${w.name}/actions/backup`
    expect(manifest.operations[0]).toMatchObject({
      operation: 'build',
      plugin: { name: 'action' },
      component: null,
      artifacts: [],
      config: { repository, component: { steps: [{ name: 'fetched', source: SOURCE }] }, source: null },
    })
    const run = await runAction(w.name)
    expect(await runsOf(server).statuses(run.id)).toEqual({ sync: 'succeeded', 'action:backup': 'succeeded' })
    const [sync, act] = w.seen.slice(-2).map(({ operations }) => operations[0]!)
    const artifact = { repository, digest: digestOf('c') }
    expect(sync?.artifacts).toEqual([
      { name: 'plugin', repository: act?.plugin.repository, digest: act?.plugin.digest },
      { name: 'action:backup', ...artifact },
    ])
    expect(act?.artifacts).toEqual([{ name: 'artifact', ...artifact }])
    await ended(server.client, (await runAction(w.name, 'plain')).id)
    const [, plain] = w.seen.slice(-2).map(({ operations }) => operations[0]!)
    expect(plain?.artifacts).toEqual([])
    await w.close()
  })

  it('run with the build that was there when the run was decided', async () => {
    const w = await world()
    await build(w.name, digestOf('c'))
    await w.close()
    const { id } = await runAction(w.name)
    await build(w.name, digestOf('d'))
    const agent = await connectAgent(server.url, w.agent.identity)
    const seen: JobManifest[] = []
    const working = workAll(agent, (manifest) => (seen.push(manifest), {}))
    expect((await ended(server.client, id)).status).toBe('succeeded')
    const digests = seen.map(({ operations }) => operations[0]!.artifacts.at(-1)?.digest)
    expect(digests).toEqual([digestOf('c'), digestOf('c')])
    await agent.close()
    await working
  })

  it('say which command builds them when nothing did', async () => {
    const w = await world()
    const missing = {
      code: 'no_build',
      message: 'not built yet: action:backup',
      remedy: 'Build first: `tenon builds create --component action:backup`.',
    }
    await expect(runAction(w.name)).rejects.toMatchObject(missing)
    await build(w.name, digestOf('c'), 'failed')
    await expect(runAction(w.name)).rejects.toMatchObject(missing)
    await syncApp(w.name, [backup([{ type: 'post-deploy-component', component: 'db' }])])
    await expect(w.deploy()).rejects.toMatchObject(missing)
    await w.close()
  })

  it('do not keep what is to be removed: their step fails, says the same, and can be skipped', async () => {
    const w = await world()
    await syncApp(w.name, [backup([{ type: 'pre-teardown-component', component: 'db' }])])
    const { id } = await server.client.call('installs.teardown', { params: { ref: w.name }, body: {} })
    expect((await ended(server.client, id)).status).toBe('failed')
    const step = await runsOf(server).stepOf(id, 'action:backup/db')
    expect(step.message).toContain('`tenon builds create --component action:backup`')
    await runsOf(server).on('skip', id, 'action:backup/db')
    expect(await runsOf(server).statuses(id)).toMatchObject({ 'destroy:db': 'succeeded' })
    await w.close()
  })

  it('pass their scheduled time over while they are not built', async () => {
    const w = await world()
    await syncApp(w.name, [backup([{ type: 'cron', cron: '0 0 1 1 *' }])])
    const { id } = await server.client.call('installs.get', { params: { ref: w.name } })
    const past = `update install_action set next_at = now() - interval '1 second' where install_id = $1`
    await server.context.pool.query(past, [id])
    await startDueActions(server.context)
    await nothingDue(server)
    const { rows } = await server.context.pool.query(
      'select passed_over, next_at > now() as is_ahead from install_action where install_id = $1',
      [id],
    )
    expect(rows).toEqual([{ passed_over: 'not built yet: action:backup', is_ahead: true }])
    await w.close()
  })

  it('are built again on demand, and nothing else is built by such a name', async () => {
    const w = await world()
    const { build: failed } = await build(w.name, digestOf('c'), 'failed')
    const again = await server.client.call('builds.retry', { params: { id: failed.id } })
    expect(again).toMatchObject({ component: 'action:backup', status: 'queued' })
    for (const name of ['action:plain', 'action:unknown', 'unknown'])
      await expect(create(w.name, name)).rejects.toMatchObject({ code: 'not_found' })
    await expect(create(w.name, 'task:backup')).rejects.toMatchObject({ code: 'bad_request' })
    await w.close()
  })
})
