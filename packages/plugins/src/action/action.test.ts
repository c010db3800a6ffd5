import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createDeployWorld, type DeployWorld, type Given } from '../testing/deploy-world.ts'
import { until } from '../testing/programs.ts'

vi.setConfig({ testTimeout: 180_000 })

const MARKER = 'marker-secret-aa3310'

describe('actions, and what cannot be deployed', () => {
  let deploys: DeployWorld

  beforeAll(async () => {
    deploys = await createDeployWorld({ types: ['action', 'pulumi'], kubeconfig: '/lent/kubeconfig' })
  }, 60_000)
  afterAll(() => deploys?.close())

  const action = (steps: Given['config'][], more: Given['config'] = {}): Given => ({
    component: 'migrate',
    type: 'action',
    config: { steps, ...more },
    inputs: { table: 'orders' },
    secrets: { password: MARKER },
  })

  it('runs its steps in order, with their environment rendered, and gives outputs', async () => {
    const given = action([
      {
        name: 'look',
        inlineContents:
          'echo "table $TABLE of $TENON_INSTALL_NAME"; echo "password is $PASSWORD"; test "$KUBECONFIG" = /lent/kubeconfig',
        env: { TABLE: '{{ .nuon.inputs.inputs.table }}', PASSWORD: '{{ .nuon.secrets.password }}' },
      },
      {
        name: 'tell',
        command: `printf '{"rows": 3, "dsn": "db://%s"}' "$P" > "$TENON_OUTPUTS"`,
        env: { P: '{{ .nuon.secrets.password }}' },
      },
    ])
    const done = await deploys.run('action', {
      ...given,
      config: { ...given.config, enableKubeConfig: true },
    })
    expect(done).toMatchObject({
      ok: true,
      message: 'All 2 steps succeeded.',
      data: { steps: ['look', 'tell'] },
    })
    expect(done.log).toMatch(
      /step 1 of 2: look[^]*table orders of acme[^]*password is \(sensitive\)[^]*step 2 of 2: tell/,
    )
    expect(done.outputs).toEqual({
      rows: { sensitive: false, value: 3 },
      dsn: { sensitive: true, value: `db://${MARKER}` },
    })
    expect(done.told + done.log).not.toContain(MARKER)
  })

  it('ends at the first step that fails, names it, and hides what it printed of a secret', async () => {
    const failed = await deploys.run(
      'action',
      action([
        {
          name: 'first',
          command: 'echo "cannot log in with $P" >&2; exit 7',
          env: { P: '{{ .nuon.secrets.password }}' },
        },
        { name: 'second', command: 'echo never' },
      ]),
    )
    expect(failed).toMatchObject({ ok: false, data: { step: 'first', index: 0 } })
    expect(failed.message).toBe(
      'The step first (1 of 2) failed: it ended with code 7: cannot log in with (sensitive)',
    )
    expect(failed.log).not.toContain('never')
  })

  it('stops a step when the job is told to stop', async () => {
    const { job, api } = await deploys.start(
      'action',
      action([{ name: 'long', command: 'echo up; sleep 300' }]),
    )
    await until('the step', () => job.output().includes('up\n'), 60)
    job.child.kill('SIGTERM')
    expect(await job.ended).toBe(1)
    expect(api.record.result).toMatchObject({ ok: false, data: { code: 'canceled' } })
  })

  it.each([
    ['has nothing to do', { name: 'empty' }, 'config_invalid'],
    [
      'comes from a repository, without a build',
      { name: 'repo', command: './x', source: { kind: 'git', repo: 'r', ref: 'main', directory: '.' } },
      'artifact_missing',
    ],
    ['leaves no JSON', { name: 'bad', command: 'echo "{" > "$TENON_OUTPUTS"' }, 'outputs_invalid'],
  ])('refuses a step that %s', async (_what, step, code) => {
    expect(await deploys.run('action', action([step]))).toMatchObject({ ok: false, data: { code } })
  })

  it('says that a pulumi component cannot be deployed yet', async () => {
    const refused = await deploys.run('deploy', { type: 'pulumi', config: {} })
    expect(refused).toMatchObject({ ok: false, data: { code: 'not_deployable', final: true } })
    expect(refused.message).toContain(
      'type pulumi, which is carried in configurations and cannot be deployed yet',
    )
  })
})
