import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { runTenon } from '../command.ts'
import { createProbe } from '../probe.ts'
import { Stage } from '../stage.ts'
import { until } from '../until.ts'
import type { Dists } from '../world.ts'
import { assert } from './shared.ts'

const INSTALL = 'first-customer'
const ANSWERS_WHILE_DEAD = 50

/** The real example in the local sandbox: server, Postgres and every agent are killed, and the service does not notice. */
export async function playAllDead(options: { dists: Dists; root: string }): Promise<void> {
  const stage = new Stage(options.dists)
  try {
    await stage.begin(undefined)
    const host = await stage.world.startLocalHost('customer')
    const url = await install(stage, host, join(options.root, 'examples/hello'))
    const probe = createProbe(url)
    try {
      await probe.answers(1)
      const agent = agentPid(host.dir)
      await stage.killServer()
      stage.killPostgres()
      for (const program of stage.agents.values()) program.kill('SIGKILL')
      process.kill(agent, 'SIGKILL')
      await until('the install agent to be dead', () => !isAlive(agent))
      await probe.answers(ANSWERS_WHILE_DEAD)
      await stage.startServer()
      await redeploy(stage)
      await probe.answers(1)
    } finally {
      await probe.stop()
    }
    assert(probe.failures.length === 0, `${probe.failures.length} requests failed: ${probe.failures[0]}`)
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${stage.lastWords()}`, { cause: error })
  } finally {
    await stage.end()
  }
}

async function install(
  stage: Stage,
  host: { dir: string; lent: string[] },
  example: string,
): Promise<string> {
  for (const role of ['build', 'setup'] as const) {
    const env = { TENON_LENT_PATHS: host.lent.join(':') }
    stage.agents.set(role, await stage.world.startAgent(stage.server, { name: role, role, env }))
  }
  for (const args of [
    ['builds', 'create', example],
    ['installs', 'create', INSTALL, '--app', 'hello', '--host', host.dir],
  ]) {
    const { code, output } = await runTenon(stage, args)
    assert(code === 0, `tenon ${args.join(' ')} ended with ${code}: ${output}`)
  }
  const { components } = await stage.client.call('installs.get', { params: { ref: INSTALL } })
  const url = components.find(({ name }) => name === 'web')?.outputs['url']?.value
  assert(typeof url === 'string', 'the example has no address')
  return url
}

/** The customer's side comes back by itself; what was deployed can be changed again. */
async function redeploy(stage: Stage): Promise<void> {
  await until('the install agent to be back', async () => {
    const { agent } = await stage.client.call('installs.get', { params: { ref: INSTALL } })
    return agent?.connected === true
  })
  const run = await stage.client.call('deploys.create', {
    params: { ref: INSTALL },
    body: { components: ['greeter'] },
  })
  await until(
    'the new deploy',
    async () => {
      const { status } = await stage.client.call('runs.get', { params: { id: run.id } })
      assert(status !== 'failed', 'the deploy failed')
      return status === 'succeeded'
    },
    60,
  )
}

/** The agent's own lock names it. */
function agentPid(hostDir: string): number {
  const lock = readdirSync(hostDir, { recursive: true, encoding: 'utf8' }).find((path) =>
    path.endsWith('agent.lock'),
  )
  assert(lock, 'no install agent runs')
  return (JSON.parse(readFileSync(join(hostDir, lock), 'utf8')) as { pid: number }).pid
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
