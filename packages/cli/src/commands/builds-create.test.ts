import { unpackTarGz } from '@tenon/oci'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readlink, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, temporaryFolder, type Home } from '../testing/run-cli.ts'
import { app, build, job, testId } from '../testing/values.ts'

const SCRIPTS = ['deploy.sh', 'destroy.sh', 'status.sh']
const SOURCE = `sha256:${'5'.repeat(64)}`

let api: Api
let home: Home
let folder: string

beforeEach(async () => {
  home = await createHome()
  folder = await temporaryFolder()
  await mkdir(join(folder, 'components'))
  await writeFile(join(folder, 'metadata.toml'), 'version = "v1"\ndisplay_name = "Hello"\n')
  for (const name of ['web', 'db']) {
    await mkdir(join(folder, 'src', name, '.git'), { recursive: true })
    for (const script of SCRIPTS) await writeFile(join(folder, 'src', name, script), `echo ${name}\n`)
    await writeFile(join(folder, 'src', name, 'notes.md'), '')
    await writeFile(join(folder, 'src', name, '.tenonignore'), '*.md\n')
    await writeFile(
      join(folder, 'components', `${name}.toml`),
      `name = "${name}"\ntype = "script"\nsource = "../src/${name}"\n`,
    )
  }
  api = await startApi({
    'apps.sync': () => ({ app: app(), changed: true }),
    'sources.put': ({ body }) => {
      const bytes = body as Buffer
      const layer = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
      return { digest: SOURCE, layer, size: bytes.length }
    },
    'builds.create': () => ({ builds: [build({ status: 'queued', finishedAt: null, artifact: null })] }),
    'builds.get': () => build(),
  })
})
afterEach(() => api.stop())

const create = (...more: string[]) => home.run(['builds', 'create', folder, ...more], { env: api.env })

describe('building an app', () => {
  it('syncs it, sends the source of each component and follows the builds to their end', async () => {
    const ran = await create()
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringMatching(/web +succeeded/) })
    expect(ran.stderr).toContain(
      'hello version 1: stored (1 component)\nbuild web: queued\nbuild web: succeeded\n',
    )
    expect(api.callsOf('sources.put')).toHaveLength(2)
    const sent = api.callsOf('builds.create')[0]?.given
    expect(sent?.params['ref']).toBe('hello')
    expect(sent?.body).toMatchObject({
      components: [
        { name: 'db', source: SOURCE },
        { name: 'web', source: SOURCE },
      ],
    })
  })

  it('builds actions with steps in repositories too, and only those', async () => {
    await mkdir(join(folder, 'actions'))
    const action = (name: string, repo: string) =>
      writeFile(
        join(folder, 'actions', `${name}.toml`),
        `name = "${name}"\ntimeout = "5m"\ntriggers = []\n[[steps]]\nname = "s"\ncommand = "ls"\n${repo}`,
      )
    await action('plain', '')
    await action('backup', '[steps.public_repo]\nrepo = "acme/ops"\n')
    const bodies = () => api.callsOf('builds.create').map(({ given }) => given.body)
    await create('--component', 'action:backup')
    expect(bodies()[0]).toEqual({ components: [{ name: 'action:backup', source: null }] })
    await create()
    expect(bodies()[1]).toMatchObject({
      components: [{ name: 'db' }, { name: 'web' }, { name: 'action:backup' }],
    })
    expect((await create('--component', 'action:plain')).code).toBe(2)
  })

  it('sends a source without its history and what it says to ignore', async () => {
    await create('--component', 'web')
    expect(api.callsOf('sources.put')).toHaveLength(1)
    const target = await temporaryFolder()
    await unpackTarGz(Readable.from([api.callsOf('sources.put')[0]!.given.body as Buffer]), target)
    expect(await readdir(target)).toEqual(SCRIPTS)
  })

  it('gives the ended builds as one JSON document', async () => {
    expect(JSON.parse((await create('--json')).stdout)).toEqual({ builds: [build()] })
  })

  it('that fails says why, with the end of the log and what to type next', async () => {
    api.handlers['builds.get'] = () =>
      build({ status: 'failed', artifact: null, message: 'exit: deploy.sh is missing' })
    api.handlers['jobs.get'] = () => job({ logBytes: 5 })
    api.handlers['jobs.logs'] = ({ response }) => void response.end('oh no\n')
    const ran = await create()
    expect(ran.code).toBe(1)
    expect(ran.stderr).toContain(
      `error: the build of web failed: exit: deploy.sh is missing\n  | oh no\nnext: tenon logs ${testId('job')}\n`,
    )
  })

  it('goes on without us after Ctrl-C', async () => {
    api.handlers['builds.get'] = () => build({ status: 'running', finishedAt: null })
    const ran = create()
    await vi.waitUntil(() => api.callsOf('builds.get').length > 0)
    home.interrupt()
    expect(await ran).toMatchObject({
      code: 130,
      stderr: expect.stringContaining(`tenon builds cancel ${testId('build')}`),
    })
  })

  it('sends a link that stays inside the source as it is', async () => {
    await symlink('deploy.sh', join(folder, 'src', 'web', 'again.sh'))
    expect(await create('--component', 'web')).toMatchObject({ code: 0 })
    const target = await temporaryFolder()
    const sent = Readable.from([api.callsOf('sources.put')[0]!.given.body as Buffer])
    await unpackTarGz(sent, target, { maxEntries: 9, maxBytes: 9999, links: 'inside' })
    expect(await readlink(join(target, 'again.sh'))).toBe('deploy.sh')
  })

  it('sends nothing when the config has a mistake, a component is unknown or a source cannot be packed', async () => {
    expect((await create('--component', 'nope')).code).toBe(2)
    await symlink('/etc/passwd', join(folder, 'src', 'web', 'link'))
    expect(await create('--component', 'web')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('cannot pack the source of web'),
    })
    await writeFile(join(folder, 'components', 'web.toml'), 'type = ')
    expect((await create()).code).toBe(2)
    expect(api.callsOf('builds.create')).toEqual([])
    expect(api.callsOf('sources.put')).toEqual([])
  })

  it('says every few seconds that a build goes on, where there is no terminal', async () => {
    let [asked, now] = [0, Date.parse('2026-11-15T12:00:00.000Z')]
    api.handlers['builds.get'] = () =>
      build(asked++ < 12 ? { status: 'running', finishedAt: null, artifact: null } : {})
    const clock = { now: () => now, sleep: async () => void (now += 1000) }
    const { stderr } = await home.run(['builds', 'create', folder], { env: api.env, io: { clock } })
    expect(stderr.match(/build web: .*/g)).toEqual([
      'build web: queued',
      'build web: running',
      'build web: running for 6s',
      'build web: running for 11s',
      'build web: succeeded',
    ])
  })

  it('notices when the server stored other bytes', async () => {
    api.handlers['sources.put'] = () => ({ digest: SOURCE, layer: SOURCE, size: 1 })
    expect((await create()).code).toBe(7)
  })
})

describe('syncing an app', () => {
  it('sends its config and says what changed', async () => {
    const ran = await home.run(['apps', 'sync'], { env: api.env, cwd: folder })
    expect(ran).toMatchObject({ code: 0, stdout: 'hello version 1: stored (1 component)\n' })
    expect(api.callsOf('apps.sync')[0]?.given.body).toMatchObject({
      app: { name: 'hello', components: [{ name: 'db' }, { name: 'web' }] },
    })
  })
})
