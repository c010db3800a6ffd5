import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Asked, PlanResult } from '@tenon/protocol'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { app, appVersion, install, job, run, step, testId } from '../testing/values.ts'

const PLAN: PlanResult = {
  digest: `sha256:${'d'.repeat(64)}`,
  hasChanges: true,
  healthy: true,
  counts: { create: 1, update: 1, delete: 0 },
  changes: [
    { action: 'create', address: 'bucket.new' },
    { action: 'update', address: 'bucket.old', before: { size: 1 }, after: { size: 2 } },
  ],
  isCut: false,
  findings: [{ policy: 'cost', outcome: 'warn', message: 'this costs more' }],
}

const ASKED: Asked = {
  digest: `sha256:${'e'.repeat(64)}`,
  artifact: { repository: 'apps/hello/cron', digest: `sha256:${'a'.repeat(64)}` },
  replaces: `sha256:${'b'.repeat(64)}`,
  configChanges: true,
}

describe('what a person decides about a run', () => {
  let api: Api
  let home: Home
  const RUN = testId('run')
  const EMPTY = run({
    id: testId('run', 2),
    status: 'succeeded',
    finishedAt: '2026-01-01T00:00:00.000Z',
    steps: [],
  })
  const ANNA = { kind: 'user', id: testId('principal'), name: 'anna' }
  const waiting = run({
    id: RUN,
    steps: [
      step('plan:web', { status: 'succeeded', jobId: testId('job'), plan: PLAN }),
      step('approval:web', { status: 'active', dependsOn: ['plan:web'] }),
      step('approval:cron', { status: 'active', dependsOn: ['sync:cron'], asked: ASKED, askedBy: ANNA }),
      step('approval:late', { dependsOn: ['sync:late', 'deploy:cron'] }),
    ],
  })

  beforeAll(async () => {
    home = await createHome()
    api = await startApi({
      'runs.get': ({ params }) => (params['id'] === EMPTY.id ? EMPTY : waiting),
      'jobs.get': () => job({ kind: 'plan', result: { plan: PLAN } }),
      'steps.approve': () => waiting,
      'steps.reject': () => run({ id: RUN, status: 'canceled', finishedAt: '2026-01-01T00:00:00.000Z' }),
      'steps.skip': () => waiting,
      'installs.get': () => install(),
      'apps.get': () => app(),
      'apps.version': () => appVersion(),
      'installs.update': () => ({ install: install({ inputs: { size: 3 } }), runs: [waiting] }),
      'deploys.rollback': () => waiting,
      'actions.run': () => waiting,
    })
  })
  afterAll(() => api.stop())
  const tenon = (...args: string[]) => home.run(args, { env: api.env })

  it('shows what has drifted on an install, change by change', async () => {
    const drift = { since: '2026-01-01T00:00:00.000Z', jobId: testId('job', 7), plan: PLAN }
    const { components } = install()
    const [first] = components
    const web = { ...first!, name: 'web', drift }
    const db = { ...first!, name: 'db', drift: null }
    api.handlers['installs.get'] = () => install({ components: [db, web] })
    const ran = await home.run(['drift', 'acme'], { env: api.env })
    expect(ran.stdout).toContain('~ bucket.old')
    expect(ran.stdout).toContain('    + {"size":2}')
    expect(ran.stdout).toContain('1 to create, 1 to change, 0 to delete')
    expect(ran.stderr).toContain(`tenon logs ${drift.jobId}`)
    const none = await home.run(['drift', 'acme', 'db'], { env: api.env })
    expect(none).toMatchObject({ code: 0, stdout: 'no drift is known of db\n' })
    const json = JSON.parse((await home.run(['drift', 'acme', '--json'], { env: api.env })).stdout)
    expect(json.items.map((each: { component: string }) => each.component)).toEqual(['db', 'web'])
    const wrong = await home.run(['drift', 'acme', 'wed'], { env: api.env })
    expect(wrong).toMatchObject({ code: 4, stderr: expect.stringContaining('next: tenon drift acme web') })
    api.handlers['installs.get'] = () => install()
  })

  it('is shown as a plan before it is asked, and names exactly that plan', async () => {
    const shown = await tenon('runs', 'plan', RUN, 'web')
    expect(shown.stdout).toBe(
      [
        '+ bucket.new',
        '~ bucket.old',
        '    - {"size":1}',
        '    + {"size":2}',
        'warn: this costs more (cost)',
        '1 to create, 1 to change, 0 to delete',
        '',
      ].join('\n'),
    )
    const approved = await tenon('runs', 'approve', RUN, 'web', '--yes', '--detach')
    expect(approved.stderr).toContain('~ bucket.old')
    expect(api.callsOf('steps.approve')[0]?.given.body).toEqual({ digest: PLAN.digest })
  })

  it('is shown as what would be deployed where there is no plan, and names exactly that', async () => {
    expect((await tenon('runs', 'plan', RUN, 'cron')).stdout).toBe(
      [
        'its type makes no plan; what would be deployed:',
        `  artifact       apps/hello/cron@${ASKED.artifact.digest}`,
        `  instead of     ${ASKED.replaces}`,
        '  configuration  changed since the last deploy',
        '',
      ].join('\n'),
    )
    const approved = await tenon('runs', 'approve', RUN, 'cron', '--yes', '--detach')
    expect(approved.stderr).toContain(`apps/hello/cron@${ASKED.artifact.digest}`)
    expect(approved.stderr).toContain('asked for by anna\n')
    expect((await tenon('runs', 'show', RUN)).stdout).toMatch(/approval:cron .*asked for by anna/)
    expect(api.callsOf('steps.approve').at(-1)?.given.body).toEqual({ digest: ASKED.digest })
  })

  it('is not taken for granted where nobody can be asked', async () => {
    const { code, stderr } = await tenon('runs', 'approve', RUN, 'web')
    expect(code).not.toBe(0)
    expect(stderr).toContain('--yes')
    expect((await tenon('runs', 'plan', RUN, 'db')).stderr).toContain(
      'its steps: plan:web, approval:web, approval:cron, approval:late',
    )
  })

  it('is not asked before its turn, and what is in the way is named', async () => {
    for (const command of ['plan', 'approve']) {
      const { code, stderr } = await tenon('runs', command, RUN, 'late')
      expect(code).not.toBe(0)
      expect(stderr).toContain(`approval:late is pending; tenon runs show ${RUN}`)
    }
  })

  it('can be no, with a reason', async () => {
    expect((await tenon('runs', 'reject', RUN, 'web')).stderr).toContain('--reason')
    const { stdout } = await tenon('runs', 'reject', RUN, 'web', '--reason', 'not today')
    expect(stdout).toBe('the deploy of web is rejected; the run is canceled\n')
    expect(api.callsOf('steps.reject')[0]?.given.body).toEqual({ reason: 'not today' })
  })

  it('is asked once for all that waits now, each by its own digest', async () => {
    const before = api.callsOf('steps.approve').length
    const { stderr } = await tenon('runs', 'approve', RUN, '--all', '--yes', '--detach')
    expect(stderr).toMatch(/web:\n[^]*~ bucket.old[^]*cron:\n[^]*apps\/hello\/cron@/)
    expect(api.callsOf('steps.approve').slice(before)).toMatchObject([
      { given: { body: { digest: PLAN.digest } } },
      { given: { body: { digest: ASKED.digest } } },
    ])
    expect((await tenon('runs', 'approve', RUN)).stderr).toContain('name the component to approve, or --all')
    expect((await tenon('runs', 'approve', EMPTY.id, '--all')).stderr).toContain('nothing in this run waits')
  })

  it('need not be followed when it is no', async () => {
    api.handlers['steps.reject'] = () => waiting
    const { code, stdout } = await tenon('runs', 'reject', RUN, 'web', '--reason', 'no', '--detach')
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'the deploy of web is rejected; the run is active\n',
    })
  })

  it('shows what a plan comes to beside its step', async () => {
    expect((await tenon('runs', 'show', RUN)).stdout).toMatch(/plan:web .*\+1 ~1 -0, 1 finding of policies/)
  })

  it('changes inputs, switches and approval in one call', async () => {
    const { stdout } = await tenon(
      'installs',
      'update',
      'acme',
      '--input=size=3',
      '--unset=old',
      '--enable=a',
      '--disable=b',
      '--approval=prompt',
      '--detach',
    )
    expect(stdout).toBe(`${RUN}\n`)
    expect(api.callsOf('installs.update')[0]?.given.body).toEqual({
      inputs: { size: '3', old: null },
      toggles: { a: true, b: false },
      approval: 'prompt',
      deploy: true,
    })
    expect((await tenon('installs', 'update', 'acme')).stderr).toContain('there is nothing to change')
  })

  it('knows a run that had nothing to do', async () => {
    expect((await tenon('runs', 'show', EMPTY.id)).stdout).toContain('there was nothing to do')
    expect((await tenon('runs', 'retry', EMPTY.id, 'deploy:web')).stderr).toContain('it has no steps')
  })

  it('goes back to an earlier deploy, and starts an action', async () => {
    const deploy = testId('deploy')
    expect((await tenon('deploys', 'rollback', 'acme', deploy, '--detach')).stdout).toBe(`${RUN}\n`)
    expect(api.callsOf('deploys.rollback')[0]?.given.params).toEqual({ ref: 'acme', id: deploy })
    expect((await tenon('actions', 'run', 'acme', 'backup', '--detach')).stdout).toBe(`${RUN}\n`)
  })
})
