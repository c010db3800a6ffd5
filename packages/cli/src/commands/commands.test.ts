import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Refusal, startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import {
  agent,
  app,
  appVersion,
  AT,
  build,
  install,
  job,
  run,
  serverInfo,
  testId,
  token,
} from '../testing/values.ts'

let api: Api
let home: Home

const page = <T>(...items: T[]) => ({ items, next: null })
const joinToken = { joinToken: 'tenonjoin.x', expiresAt: AT }

beforeEach(async () => {
  home = await createHome()
  api = await startApi({
    'apps.list': () => page(app()),
    'apps.get': () => app(),
    'apps.version': () => appVersion(),
    'builds.list': () => page(build()),
    'builds.get': () => build(),
    'builds.cancel': () => build({ status: 'canceled' }),
    'installs.list': () => page(install()),
    'installs.get': () => install(),
    'installs.joinToken': () => ({ ...joinToken, replaces: null }),
    'installs.deprovision': () => run({ kind: 'deprovision' }),
    'installs.teardown': () => run({ kind: 'teardown' }),
    'installs.delete': () => ({ id: testId('install'), name: 'acme' }),
    'installs.update': () => ({ install: install(), runs: [run({ kind: 'teardown' })] }),
    'installs.create': () => ({
      install: install({ status: 'provisioning' }),
      run: run({ kind: 'provision' }),
    }),
    'secrets.list': () => page({ name: 'api-key', version: 2, delivered: true, problem: null, setAt: AT }),
    'runs.list': () => page(run()),
    'runs.get': () => run(),
    'runs.cancel': () => run({ status: 'canceled' }),
    'steps.retry': () => run(),
    'jobs.list': () => page(job()),
    'jobs.get': () => job(),
    'jobs.cancel': () => job({ status: 'canceled' }),
    'jobs.settle': () => job({ status: 'failed', reason: 'forced' }),
    'agents.list': () => page(agent()),
    'agents.joinToken': () => joinToken,
    'agents.revoke': () => agent({ status: 'revoked' }),
    'server.info': () => serverInfo({ keys: KEYS }),
    'keys.rotate': () => ({ keys: KEYS }),
    'tokens.list': () => page(token()),
    'tokens.create': () => ({ token: token(), secret: 'tenon_secret' }),
    'tokens.revoke': () => token({ revokedAt: AT }),
  })
})
afterEach(() => api.stop())

const JOB = testId('job')
const KEYS = [{ keyId: testId('key'), publicKey: 'AAAA', signedBy: null, signature: null }]
const RUN = testId('run')

/** Command, what a person sees, and the API's value that a program gets. */
const COMMANDS: [string[], RegExp, unknown][] = [
  [['apps', 'list'], /^NAME +VERSION.*\nhello +1 /, page(app())],
  [['apps', 'show', 'hello'], /web +script[^]*INPUT +WHAT.*\na +string/, app()],
  [['builds', 'list', '--app', 'hello'], /hello v1 +web +succeeded/, page(build())],
  [['builds', 'show', testId('build')], /component +web/, build()],
  [['builds', 'cancel', testId('build')], /is canceled/, build({ status: 'canceled' })],
  [['installs', 'list'], /acme +hello +local +active +connected/, page(install())],
  [['installs', 'show', 'acme'], /url=http:\/\/x key=\(sensitive\)/, install()],
  [['installs', 'join-token', 'acme'], /^tenonjoin\.x\n$/, { ...joinToken, replaces: null }],
  [
    ['installs', 'secrets', 'list', 'acme'],
    /api-key +2 +yes/,
    page({ name: 'api-key', version: 2, delivered: true, problem: null, setAt: AT }),
  ],
  [
    ['installs', 'deprovision', 'acme', '--yes', '--detach'],
    new RegExp(`^${RUN}\n$`),
    run({ kind: 'deprovision' }),
  ],
  [
    ['installs', 'teardown', 'acme', 'web', '--yes', '--detach'],
    new RegExp(`^${RUN}\n$`),
    run({ kind: 'teardown' }),
  ],
  [
    ['installs', 'delete', 'acme', '--yes'],
    new RegExp(`^install acme .+ is deleted; its audit stays: tenon audit verify ${testId('install')}\n$`),
    { id: testId('install'), name: 'acme' },
  ],
  [
    ['installs', 'update', 'acme', '--disable', 'db', '--with-dependents', '--detach'],
    new RegExp(`^${RUN}\n$`),
    { install: install(), runs: [run({ kind: 'teardown' })] },
  ],
  [
    ['installs', 'create', 'acme', '--app', 'hello', '--host', 'h', '--input', 'a=b=c', '--detach'],
    new RegExp(`^${RUN}\n$`),
    { install: install({ status: 'provisioning' }), run: run({ kind: 'provision' }) },
  ],
  [['runs', 'list', '--install', 'acme'], /deploy +acme +active +0\/2/, page(run())],
  [['runs', 'show', RUN], /○ {3}deploy:web/, run()],
  [['runs', 'cancel', RUN], /is canceled/, run({ status: 'canceled' })],
  [['runs', 'retry', RUN, 'deploy:web', '--detach'], new RegExp(`^${RUN}\n$`), run()],
  [['jobs', 'list', '--status', 'succeeded'], /deploy +acme +web +succeeded +completed/, page(job())],
  [['jobs', 'show', JOB], /fencing number +1/, job()],
  [['jobs', 'why', JOB], /waits for nothing: it is succeeded/, null],
  [['jobs', 'cancel', JOB], /is canceled/, job({ status: 'canceled' })],
  [
    ['jobs', 'settle', JOB, '--outcome', 'failed', '--reason', 'it burned'],
    /settled as failed/,
    job({ status: 'failed', reason: 'forced' }),
  ],
  [['agent', 'list'], /build +connected .+ 1\/4/, page(agent())],
  [['agent', 'join-token', '--role', 'build'], /^tenonjoin\.x\n$/, joinToken],
  [['agent', 'revoke', testId('agent')], /build on builder\) is revoked/, agent({ status: 'revoked' })],
  [['keys', 'list'], /[0-9a-f]{64} +nobody: it is the first/, { keys: KEYS }],
  [['keys', 'rotate', '--yes'], /nobody: it is the first/, { keys: KEYS }],
  [['tokens', 'list'], /ci +operator +active +never/, page(token())],
  [
    ['tokens', 'create', 'ci', '--role', 'operator'],
    /^tenon_secret\n$/,
    { token: token(), secret: 'tenon_secret' },
  ],
  [['tokens', 'revoke', testId('token')], /\(ci\) is revoked/, token({ revokedAt: AT })],
]

describe.each(COMMANDS)('tenon %j', (argv, seen, value) => {
  it('shows a person what they asked for', async () => {
    const ran = await home.run(argv, { env: api.env })
    expect(ran.stdout).toMatch(seen)
    expect(ran.code).toBe(0)
  })

  it('gives a program exactly the API’s value', async () => {
    const ran = await home.run([...argv, '--json'], { env: api.env })
    expect(JSON.parse(ran.stdout)).toEqual(value)
    expect(ran.code).toBe(0)
  })

  it('answers a refusal with its code, its remedy and the request’s id', async () => {
    const refuse = (code: 'not_found' | 'forbidden', remedy: string) => {
      for (const name of Object.keys(api.handlers) as (keyof typeof api.handlers)[]) {
        api.handlers[name] = () => {
          throw new Refusal(code, 'no such thing', remedy)
        }
      }
    }
    refuse('not_found', 'look again')
    const ran = await home.run(argv, { env: api.env })
    expect(ran).toEqual({
      code: 4,
      stdout: '',
      stderr: 'error: no such thing\nnext: look again\nrequest: req-test-1\n',
    })
    refuse('forbidden', 'ask')
    expect((await home.run(argv, { env: api.env })).code).toBe(3)
  })
})

describe('what is sent', () => {
  it('is the inputs and the host of a new install, as an absolute path', async () => {
    await home.run(
      ['installs', 'create', 'acme', '--app', 'hello', '--host', 'h', '--input', 'a=b=c', '--detach'],
      { env: api.env },
    )
    expect(api.callsOf('installs.create')[0]?.given.body).toEqual({
      name: 'acme',
      app: 'hello',
      sandbox: { type: 'local', config: { host: { dir: `${home.home}/h` } } },
      inputs: { a: 'b=c' },
    })
  })

  it('is that dependents go too only where that was said', async () => {
    const sent = async (...more: string[]) => {
      const argv = ['installs', 'update', 'acme', '--disable', 'db', '--detach', ...more]
      await home.run(argv, { env: api.env })
      return api.callsOf('installs.update').at(-1)?.given.body
    }
    const body = { toggles: { db: false }, deploy: true }
    expect([await sent(), await sent('--with-dependents')]).toEqual([body, { ...body, withDependents: true }])
  })

  it('is never the value of a sensitive input', async () => {
    api.handlers['apps.version'] = () => appVersion({ sensitive: true })
    for (const argv of [
      ['installs', 'create', 'acme', '--app', 'hello', '--input', 'a=hidden'],
      ['installs', 'update', 'acme', '--input', 'a=hidden'],
    ]) {
      const ran = await home.run(argv, { env: api.env })
      expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining('input a is sensitive') })
      expect(ran.stderr).toContain('next: seal it to the install: tenon installs secrets set acme input--a')
    }
    expect(JSON.stringify(api.calls.map(({ given }) => given.body))).not.toContain('hidden')
  })

  it('is the id of a step that was named by its key', async () => {
    await home.run(['runs', 'retry', RUN, 'deploy:web', '--detach'], { env: api.env })
    expect(api.callsOf('steps.retry')[0]?.given.params['step']).toBe(run().steps[1]?.id)
    expect((await home.run(['runs', 'retry', RUN, 'nope'], { env: api.env })).code).toBe(4)
  })
})

it('an app shows everything that it asks for, does and forbids', async () => {
  const { app: bare, ...rest } = appVersion()
  const parts = {
    secrets: [
      {
        name: 'api-key',
        displayName: '',
        description: 'of the bank',
        required: true,
        autoGenerate: false,
        format: '',
      },
    ],
    actions: [
      {
        name: 'backup',
        timeoutSeconds: 30,
        dependencies: [],
        triggers: [{ type: 'cron', cron: '0 3 * * *' }],
        steps: [{ name: 'dump', inlineContents: 'pg_dump' }],
      },
    ],
    policies: [
      { name: 'no-root', type: 'helm_chart', engine: 'cel', components: ['web'], contents: '- deny: "true"' },
    ],
  }
  api.handlers['apps.version'] = () => ({ ...rest, app: { ...bare, ...parts } }) as never
  const { stdout } = await home.run(['apps', 'show', 'hello'], { env: api.env })
  expect(stdout).toMatch(/^SECRET +WHAT +MORE\napi-key +required +of the bank$/m)
  expect(stdout).toMatch(/^ACTION +WHAT +MORE\nbackup +1 step +cron 0 3 \* \* \*$/m)
  expect(stdout).toMatch(/^POLICY +WHAT +MORE\nno-root +cel on helm_chart +web$/m)
})

describe('commands in general', () => {
  it('refuse a destructive command without a yes', async () => {
    const ran = await home.run(['installs', 'deprovision', 'acme'], { env: api.env })
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining('next: add --yes') })
    const asked = await home.run(['installs', 'deprovision', 'acme', '--detach'], {
      env: api.env,
      tty: 80,
      stdin: 'no\r',
    })
    expect(asked.code).toBe(2)
    expect(api.callsOf('installs.deprovision')).toEqual([])
    expect((await home.run(['installs', 'delete', 'acme'], { env: api.env })).code).toBe(2)
    expect(api.callsOf('installs.delete')).toEqual([])
    expect(
      (
        await home.run(['installs', 'deprovision', 'acme', '--detach'], {
          env: api.env,
          tty: 80,
          stdin: 'yes\r',
        })
      ).code,
    ).toBe(0)
  })

  it('say where the next page is', async () => {
    api.handlers['apps.list'] = () => ({ items: [app()], next: testId('app') })
    expect((await home.run(['apps', 'list'], { env: api.env })).stderr).toBe(
      `more: add --after ${testId('app')}\n`,
    )
  })

  it('take only an id as the end of the page before', async () => {
    const ran = await home.run(['runs', 'list', '--after', 'x'], { env: api.env })
    expect(ran).toMatchObject({ code: 2, stdout: '' })
    expect(ran.stderr).toContain('expected the id that the page before named in its last line')
  })

  it('tell an agent that a new one replaces from one that has ended', async () => {
    const old = install().agent!.id
    const noteFor = async (agent: ReturnType<typeof install>['agent']) => {
      api.handlers['installs.joinToken'] = () => ({ ...joinToken, replaces: old })
      api.handlers['installs.get'] = () => install({ agent })
      return (await home.run(['installs', 'join-token', 'acme'], { env: api.env })).stderr
    }
    expect(await noteFor(install().agent)).toContain(`it replaces agent ${old}: first its owner runs`)
    expect(await noteFor(null)).toContain(`it takes the place of agent ${old}, which has ended`)
  })

  it('say that the customer paused an install’s agent', async () => {
    const at = install().agent!
    api.handlers['installs.get'] = () => install({ agent: { ...at, pausedSince: AT } })
    const ran = await home.run(['installs', 'show', 'acme'], { env: api.env })
    expect(ran.stdout).toMatch(/^paused +by the customer, .+ ago: new jobs are held until/m)
  })

  it('say what a job waits for', async () => {
    const waiting = {
      code: 'no_agent',
      message: 'No agent has enrolled yet.',
      since: AT,
      remedy: 'Start one.',
    }
    api.handlers['jobs.get'] = () => job({ status: 'queued', waiting })
    const ran = await home.run(['jobs', 'why', JOB], { env: api.env })
    expect(ran.stdout).toMatch(/No agent has enrolled yet\.[^]+Start one\./)
    expect(JSON.parse((await home.run(['jobs', 'why', JOB, '--json'], { env: api.env })).stdout)).toEqual(
      waiting,
    )
  })

  it.each([
    [['nonsense'], 'unknown command'],
    [['apps', 'list', '--nonsense'], 'unknown option'],
    [['apps', 'list', '--limit', '0'], 'expected a whole number'],
    [['jobs', 'list', '--status', 'odd'], 'Allowed choices'],
    [['deploy'], 'missing required argument'],
  ])('answer %j with how it is used', async (argv, words) => {
    const ran = await home.run(argv, { env: api.env })
    expect(ran).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(words) })
    expect(ran.stderr).toContain('next: add --help')
  })

  it('refuse a local sandbox without its host, before anything is made', async () => {
    const argv = ['installs', 'create', 'acme', '--app', 'hello', '--sandbox', 'local']
    const ran = await home.run(argv, { env: api.env })
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining('--sandbox local needs --host') })
    expect(api.calls).toEqual([])
  })

  it('say what an install without a sandbox waits for', async () => {
    const argv = ['installs', 'create', 'acme', '--app', 'hello', '--detach']
    const ran = await home.run(argv, { env: api.env })
    expect(ran.stderr).toContain('tenon installs join-token acme --out join.token')
    const json = await home.run([...argv, '--json'], { env: api.env })
    expect(json).toMatchObject({ code: 0, stderr: '' })
  })

  it.each([
    [['runs', 'show', 'acme'], 'run_01…; `tenon runs list`'],
    [['jobs', 'why', testId('run')], 'job_01…; `tenon jobs list`'],
    [['builds', 'retry', 'x'], 'bld_01…; `tenon builds list`'],
    [['tokens', 'revoke', 'ci'], 'tok_01…; `tenon tokens list`'],
    [['agent', 'revoke', 'x'], 'agt_01…; `tenon agent list`'],
    [['deploys', 'rollback', 'acme', 'x'], 'dep_01…; `tenon deploys list INSTALL`'],
  ])('answer %j with the kind of id they take', async (argv, words) => {
    const ran = await home.run(argv, { env: api.env })
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining(words) })
    expect(api.calls).toEqual([])
  })

  it.each([
    [['tokens', 'create', 'ci', '--role', 'viewer'], 'tenon_secret'],
    [['agent', 'join-token', '--role', 'build'], 'tenonjoin.x'],
    [['installs', 'join-token', 'acme'], 'tenonjoin.x'],
  ])('write the secret of %j where only its owner can read it', async (argv, secret) => {
    const file = join(home.home, 'a.token')
    const ran = await home.run([...argv, '--out', 'a.token'], { env: api.env })
    expect(ran).toMatchObject({ code: 0, stdout: '' })
    expect(await readFile(file, 'utf8')).toBe(`${secret}\n`)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const before = api.calls.length
    const again = await home.run([...argv, '--out', 'a.token'], { env: api.env })
    expect(again).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('name a file that does not exist'),
    })
    expect(api.calls.length).toBe(before)
  })

  it('say that the server is away', async () => {
    const ran = await home.run(['apps', 'list'], {
      env: { TENON_URL: 'http://127.0.0.1:9', TENON_TOKEN: 'x' },
    })
    expect(ran).toMatchObject({ code: 6, stderr: expect.stringContaining('next:') })
  })

  it('say what they wait for when an answer takes longer than a second', async () => {
    let answer = () => {}
    api.handlers['apps.list'] = () => new Promise((resolve) => (answer = () => resolve(page(app()))))
    const ran = home.run(['apps', 'list'], { env: api.env })
    setTimeout(() => answer(), 1200)
    expect((await ran).stderr).toContain(`waiting for ${api.url}`)
  })
})
