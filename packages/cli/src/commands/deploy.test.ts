import type { RunView } from '@tenon/protocol'
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Refusal, startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { AT, job, run, step, testId } from '../testing/values.ts'

let api: Api
let home: Home
let watchers: ServerResponse[]

const RUN = testId('run')
const JOB = testId('job')

beforeEach(async () => {
  home = await createHome()
  watchers = []
  api = await startApi({
    'deploys.create': () => run({ status: 'queued' }),
    'runs.get': () => run(),
    'runs.watch': ({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.flushHeaders()
      watchers.push(response)
    },
  })
})
afterEach(() => api.stop())

function tell(view: RunView): void {
  watchers.at(-1)!.write(`: still here\n\nevent: run\ndata: ${JSON.stringify(view)}\n\n`)
}

const done = run({
  status: 'succeeded',
  finishedAt: AT,
  steps: [
    step('sync:web', { status: 'succeeded', startedAt: AT, finishedAt: AT }),
    step('deploy:web', { status: 'succeeded', dependsOn: ['sync:web'], startedAt: AT, finishedAt: AT }),
  ],
})
const failed = run({
  status: 'failed',
  finishedAt: AT,
  steps: [step('deploy:web', { status: 'failed', jobId: JOB, message: 'exit: the script ended with 3' })],
})

describe('a deploy', () => {
  it('is followed step by step on stderr, and its end is on stdout', async () => {
    const ran = home.run(['deploy', 'acme', 'web'], { env: api.env })
    await vi.waitUntil(() => watchers.length === 1)
    tell(
      run({
        steps: [step('sync:web', { status: 'active', progress: { message: 'copying', fraction: 0.5 } })],
      }),
    )
    tell(done)
    const { code, stdout, stderr } = await ran
    expect(code).toBe(0)
    expect(stderr).toContain('sync:web: active\nsync:web: succeeded\ndeploy:web: succeeded\n')
    expect(stdout).toMatch(/^deploy acme {2}succeeded/)
    expect(stdout).toContain('✓   deploy:web')
    expect(api.callsOf('deploys.create')[0]?.given.body).toEqual({ components: ['web'] })
  })

  it('says what to type where somebody must approve it, also without a terminal and on a narrow one', async () => {
    const commands = [`tenon runs approve ${RUN} web`, `tenon runs reject ${RUN} web --reason …`]
    const remedy = `Look at it and decide: \`${commands[0]}\` or \`${commands[1]}\`.`
    const waiting = [{ code: 'approval', message: 'approval:web: somebody must.', since: AT, remedy }]
    const follow = async (setting: object) => {
      const ran = home.run(['deploy', 'acme'], { env: api.env, ...setting })
      await vi.waitUntil(() => watchers.length === 1)
      tell(run({ waiting }))
      tell(done)
      watchers = []
      return (await ran).stderr
    }
    expect(await follow({})).toContain(`waiting: approval:web: somebody must.\n  ${remedy}\n`)
    const narrow = await follow({ tty: 80 })
    for (const command of commands) expect(narrow).toContain(`\`${command}\``)
  })

  it('is drawn in place on a terminal, within its width', async () => {
    const ran = home.run(['deploy', 'acme'], { env: api.env, tty: 50 })
    await vi.waitUntil(() => watchers.length === 1)
    const waiting = {
      code: 'agent_away',
      message: 'It needs the agent, '.repeat(9),
      since: AT,
      remedy: 'Start it.',
    }
    tell(
      run({
        steps: [
          step('deploy:web', { status: 'active', progress: { message: 'x'.repeat(99), fraction: 0.5 } }),
        ],
        waiting: [waiting],
      }),
    )
    tell(done)
    const { stderr, stdout } = await ran
    expect(stderr).toContain('50 %')
    expect(stderr).toContain('Start it.')
    // oxlint-disable-next-line no-control-regex -- control sequences take no room
    const widths = stderr.split('\n').map((line) => line.replace(/\u001B\[[0-9;]*[A-Za-z]|\r/g, '').length)
    expect(Math.max(...widths)).toBeLessThan(50)
    expect(stdout).toContain('\u001B[32m')
    expect((await home.run(['--version'], { tty: 50, env: { NO_COLOR: '1' } })).stdout).not.toContain(
      '\u001B',
    )
  })

  it('that fails says which step, why, the end of its log and what to type next', async () => {
    api.handlers['jobs.get'] = () => job({ logBytes: 30 })
    api.handlers['jobs.logs'] = ({ response }) =>
      void response.end('starting\n\u001B]0;x\u0007port 80 is taken\n')
    const ran = home.run(['deploy', 'acme'], { env: api.env })
    await vi.waitUntil(() => watchers.length === 1)
    tell(failed)
    const { code, stderr } = await ran
    expect(code).toBe(1)
    expect(stderr).toContain(
      'error: deploy:web failed: exit: the script ended with 3\n  | starting\n  | port 80 is taken\n',
    )
    expect(stderr).toContain(`next: tenon logs ${JOB}, then tenon runs retry ${RUN} deploy:web`)
  })

  it('goes on being followed when the connection breaks', async () => {
    const ran = home.run(['deploy', 'acme'], { env: api.env })
    await vi.waitUntil(() => watchers.length === 1)
    tell(run())
    api.cutConnections()
    await vi.waitUntil(() => watchers.length === 2)
    tell(done)
    expect((await ran).code).toBe(0)
  })

  it('goes on without us after Ctrl-C, which says how to cancel it', async () => {
    const ran = home.run(['deploy', 'acme'], { env: api.env })
    await vi.waitUntil(() => watchers.length === 1)
    home.interrupt()
    const { code, stderr } = await ran
    expect(code).toBe(130)
    expect(stderr).toContain(`the deploy run ${RUN} goes on`)
    expect(stderr).toContain(`tenon runs cancel ${RUN}`)
    expect(api.callsOf('runs.cancel')).toEqual([])
  })

  it('can be left alone from the start', async () => {
    const ran = await home.run(['deploy', 'acme', '--detach'], { env: api.env })
    expect(ran).toMatchObject({ code: 0, stdout: `${RUN}\n` })
    expect(
      JSON.parse((await home.run(['deploy', 'acme', '--detach', '--json'], { env: api.env })).stdout),
    ).toEqual(run({ status: 'queued' }))
  })

  it('gives the ended run as one JSON document', async () => {
    const ran = home.run(['deploy', 'acme', '--json'], { env: api.env })
    await vi.waitUntil(() => watchers.length === 1)
    tell(done)
    expect(JSON.parse((await ran).stdout)).toEqual(done)
  })

  it('that the server refuses has the exit code of the refusal', async () => {
    api.handlers['deploys.create'] = () => {
      throw new Refusal('no_build', 'web has no build', 'tenon builds create')
    }
    const ran = await home.run(['deploy', 'acme'], { env: api.env })
    expect(ran).toMatchObject({
      code: 5,
      stderr: 'error: web has no build\nnext: tenon builds create\nrequest: req-test-1\n',
    })
  })
})

describe('watching a run', () => {
  it('as JSON gives a line for each change', async () => {
    const ran = home.run(['runs', 'watch', RUN, '--json'], { env: api.env })
    await vi.waitUntil(() => watchers.length === 1)
    tell(run())
    tell(failed)
    const { code, stdout } = await ran
    expect(code).toBe(1)
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as RunView).status),
    ).toEqual(['active', 'failed'])
  })

  it.each([['--json'], []])('ends when its token does, and says so (%s)', async (...options) => {
    const ran = home.run(['runs', 'watch', RUN, ...options], { env: api.env })
    await vi.waitUntil(() => watchers.length === 1)
    const refuse = () => {
      throw new Refusal('unauthorized', 'this token was revoked')
    }
    Object.assign(api.handlers, { 'runs.watch': refuse, 'runs.get': refuse })
    // What the server does with streams of a token that ends.
    watchers[0]!.destroy()
    const { code, stderr } = await ran
    expect([code, stderr]).toEqual([3, expect.stringContaining('this token was revoked')])
  })
})
