import { join } from 'node:path'
import { readFile, writeFile } from 'node:fs/promises'
import type { ManifestOperation } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobRecord } from '../testing/job-api-server.ts'
import { JobWorld, type TestRegistry } from '../testing/job-world.ts'
import { isAlive, until } from '../testing/programs.ts'

const description = (fields: object) =>
  JSON.stringify({
    name: 'custom',
    version: '1',
    operations: ['deploy'],
    kind: 'node',
    entry: 'main.mjs',
    ...fields,
  })

describe('the job program', () => {
  let world: JobWorld
  let registry: TestRegistry

  beforeAll(async () => {
    world = await JobWorld.create()
    registry = await world.registry()
  })
  afterAll(() => world.close())

  const plugin = async (files: Record<string, string>, type: string = MEDIA_TYPES.plugin) => ({
    name: 'custom',
    repository: 'plugins/custom',
    digest: await world.push(registry, 'plugins/custom', files, type),
  })
  const nodePlugin = (deploy: string) =>
    plugin({
      'plugin.json': description({}),
      'main.mjs': `export default { operations: { deploy: ${deploy} } }`,
    })
  const apiOf = (operations: Partial<ManifestOperation>[], given: Partial<JobRecord> = {}) =>
    world.jobApi(operations, {
      context: {
        installId: null,
        hostSocket: null,
        serverUrl: 'http://127.0.0.1:9',
        programs: world.programs,
        registry: { url: registry.server.url, bearer: registry.bearer() },
      },
      ...given,
    })
  const runToEnd = async (operations: Partial<ManifestOperation>[], given: Partial<JobRecord> = {}) => {
    const api = await apiOf(operations, given)
    const job = await world.startJob(api)
    return { code: await job.ended, output: job.output(), record: api.record, folder: job.folder }
  }

  it('pulls a plugin by digest, runs it, and hands over outputs and result', async () => {
    const deploy = `async ({ log, operation, artifact }) => {
      log('config ' + operation.config.size)
      const { readFile } = await import('node:fs/promises')
      const text = await readFile((await artifact('data')) + '/file', 'utf8')
      return { ok: true, message: 'done', data: { text }, outputs: { url: { sensitive: false, value: 'u' } } }
    }`
    const digest = await world.push(registry, 'data', { file: 'content' }, 'application/vnd.test')
    const { code, output, record } = await runToEnd([
      {
        plugin: await nodePlugin(deploy),
        config: { size: 'l' },
        artifacts: [{ name: 'data', repository: 'data', digest }],
      },
    ])
    expect(output).toContain('config l\n')
    expect(code).toBe(0)
    expect(record.result).toEqual({ ok: true, message: 'done', data: { text: 'content' } })
    expect(record.putOutputs).toEqual({ url: { sensitive: false, value: 'u' } })
  })

  it('runs a plugin of a later version, which says more and is told what lies between does not know', async () => {
    const later = await plugin({
      'plugin.json': description({ operations: ['deploy', 'levitate'] }),
      'main.mjs': `export default { operations: {
        levitate: async () => undefined,
        deploy: async ({ manifest, operation }) => ({
          ok: true, message: 'done', later: 'a field',
          data: { health: operation.config.health, hint: operation.hint, limits: manifest.limits },
        }),
      } }`,
    })
    const health = { probes: [], blockDeploy: false, stabilizationSeconds: 1, later: true }
    const operation = { plugin: later, config: { health }, hint: 'of later' }
    const { code, record } = await runToEnd([operation])
    expect(code).toBe(0)
    expect(record.result).toMatchObject({ ok: true, message: 'done', data: { health, hint: 'of later' } })
  })

  it('does operations in order and ends with the first that fails', async () => {
    const step = (name: string, isOk: boolean) =>
      nodePlugin(
        `async ({ log }) => { log('${name} ran'); return { ok: ${isOk}, message: '${name}', data: { ${name}: 1 } } }`,
      )
    const { code, output, record } = await runToEnd([
      { plugin: await step('first', true) },
      { plugin: await step('second', false) },
      { plugin: await step('third', true) },
    ])
    expect(code).toBe(1)
    expect(output).toMatch(/first ran[^]*second ran/)
    expect(output).not.toContain('third ran')
    expect(record.result).toMatchObject({ ok: false, message: 'second' })
    expect(record.result?.data['operations']).toMatchObject([
      { ok: true, data: { first: 1 } },
      { ok: false, data: { second: 1 } },
    ])
  })

  it('runs a shell plugin with its artifacts as folders', async () => {
    const shell = await plugin({
      'plugin.json': description({ kind: 'shell', entry: 'operations' }),
      'operations/deploy': `cat "$TENON_ARTIFACTS/data/file"; echo '{"data":{"done":true}}' > "$TENON_OUT/result.json"`,
    })
    const digest = await world.push(registry, 'data', { file: 'from the artifact' }, 'application/vnd.test')
    const artifacts = [{ name: 'data', repository: 'data', digest }]
    const { code, output, record } = await runToEnd([{ plugin: shell, artifacts }])
    expect(output).toContain('from the artifact')
    expect(code).toBe(0)
    expect(record.result?.data).toEqual({ done: true })
  })

  it('prints one line with a code when a plugin throws, and reports it', async () => {
    const { code, output, record } = await runToEnd([
      { plugin: await nodePlugin(`async () => { throw new Error('out of\\nluck') }`) },
    ])
    expect(code).toBe(1)
    expect(output).toMatch(/^error plugin_failed: out of luck /m)
    expect(record.result).toMatchObject({ ok: false, data: { code: 'plugin_failed' } })
  })

  it('ends when a plugin fails outside of what it returned', async () => {
    const deploy = `() => new Promise(() => setTimeout(() => { throw new Error('later') }, 5))`
    const { code, output } = await runToEnd([{ plugin: await nodePlugin(deploy) }])
    expect(code).toBe(1)
    expect(output).toMatch(/^error plugin_failed: later/m)
  })

  it.each([
    ['has no plugin.json', { 'main.mjs': '' }, 'plugin_invalid'],
    ['has another name', { 'plugin.json': description({ name: 'other' }), 'main.mjs': '' }, 'plugin_invalid'],
    ['leads out of its folder', { 'plugin.json': description({ entry: '../../token' }) }, 'plugin_invalid'],
    ['lacks its entry', { 'plugin.json': description({}) }, 'plugin_invalid'],
    ['exports nothing', { 'plugin.json': description({}), 'main.mjs': '' }, 'plugin_invalid'],
    [
      'lacks an operation it declares',
      { 'plugin.json': description({}), 'main.mjs': 'export default { operations: {} }' },
      'plugin_invalid',
    ],
    [
      'does not declare the operation',
      {
        'plugin.json': description({ operations: [] }),
        'main.mjs': 'export default { operations: { deploy: async () => ({}) } }',
      },
      'operation_unsupported',
    ],
  ])('refuses a plugin that %s', async (_what, files, expected) => {
    const { code, record } = await runToEnd([{ plugin: await plugin(files as Record<string, string>) }])
    expect(code).toBe(1)
    expect(record.result?.data).toEqual({ code: expected })
  })

  it('refuses a plugin that is no plugin, is not there, or does not come with the agent', async () => {
    const other = await plugin({ 'plugin.json': description({}) }, MEDIA_TYPES.script)
    expect((await runToEnd([{ plugin: other }])).record.result?.data).toEqual({ code: 'registry_failed' })
    const absent = { ...other, digest: `sha256:${'0'.repeat(64)}` }
    expect((await runToEnd([{ plugin: absent }])).record.result?.data).toEqual({ code: 'registry_failed' })
    const builtIn = { ...other, name: 'constructor', digest: null }
    expect((await runToEnd([{ plugin: builtIn }])).record.result?.data).toEqual({ code: 'plugin_unknown' })
  })

  it('refuses a result that does not fit the contract', async () => {
    const { code, record } = await runToEnd([{ plugin: await nodePlugin(`async () => 'fine'`) }])
    expect(code).toBe(1)
    expect(record.result?.ok).toBe(false)
  })

  it('tells the plugin to stop on SIGTERM, and its scripts with it', async () => {
    const shell = await plugin({
      'plugin.json': description({ kind: 'shell', entry: '.' }),
      deploy: `echo $$ > "$HOME/pid"; exec sleep 300`,
    })
    const api = await apiOf([{ plugin: shell }])
    const job = await world.startJob(api)
    const pid = Number(
      await until('the script', () => readFile(join(job.folder, 'pid'), 'utf8').catch(() => '')),
    )
    job.child.kill('SIGTERM')
    expect(await job.ended).toBe(1)
    expect(job.output()).toMatch(
      /^stopped: The job was told to stop: it was canceled, or its time was over\.$/m,
    )
    expect(api.record.result).toMatchObject({ ok: false, data: { code: 'canceled' } })
    expect(isAlive(pid)).toBe(false)
  })

  it('ends in time although the plugin does not heed the signal', async () => {
    const api = await apiOf([
      {
        plugin: await nodePlugin(
          `({ log }) => { log('deaf'); return new Promise((r) => setTimeout(r, 1e6)) }`,
        ),
      },
    ])
    api.record.manifest.limits.graceSeconds = 1
    const job = await world.startJob(api)
    await until('the plugin', () => job.output().includes('deaf'))
    job.child.kill('SIGTERM')
    expect(await job.ended).toBe(1)
  })

  it('outlives a restart of the agent', async () => {
    const deploy = `async ({ log, workDir }) => {
      const { access } = await import('node:fs/promises')
      log('waiting')
      while (!(await access(workDir + '/go').then(() => true, () => false))) await new Promise((r) => setTimeout(r, 10))
      return { ok: true, message: 'done', data: {} }
    }`
    const api = await apiOf([{ plugin: await nodePlugin(deploy) }])
    const job = await world.startJob(api)
    await until('the plugin', () => job.output().includes('waiting'))
    await api.stop()
    await writeFile(join(job.folder, 'job/operation-1/go'), '')
    await until('the work to be done', () => job.output().includes('deploy succeeded'))
    await api.start()
    expect(await job.ended).toBe(0)
    expect(api.record.result?.ok).toBe(true)
  })

  it('says what is missing when nobody gave it a job', async () => {
    const job = world.spawn([join(world.programs, 'job.mjs')])
    expect(await job.ended).toBe(1)
    expect(job.output()).toMatch(/^error bad_environment: TENON_JOB_URL/)
  })
})
