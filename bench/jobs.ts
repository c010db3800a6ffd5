import { commitTimes, prepareRows, roundTrips } from './baselines.ts'
import type { Child } from './child.ts'
import { quantile, round, type Measure } from './report.ts'
import { seedAgents, seedApp, seedInstalls } from './seed.ts'
import type { SwarmCommands } from './swarm-program.ts'
import { benchThroughput } from './throughput.ts'
import type { World } from './world.ts'

const INSTALLS = 50
const INSTALL_SLOTS = 4
const BUILD_AGENTS = 4
const BUILD_SLOTS = 8
const COMPONENTS = ['web', 'api', 'jobs', 'cache']
const ROUNDS = 3

/** Goals 1 and 2 share a fleet: fifty installs with their agents, and four build agents. */
export async function benchJobs(
  world: World,
  options: { pickups: number; seconds: number; only: ReadonlySet<string> },
): Promise<Measure[]> {
  await prepareRows(world)
  const app = await seedApp(
    world.db,
    'bench',
    COMPONENTS.map((name) => ({ name, config: {} })),
  )
  const installs = await seedInstalls(world.db, app, 'install', INSTALLS)
  const swarm = world.startSwarm()
  const publicKeys = await swarm.call('makeKeys', INSTALLS + BUILD_AGENTS)
  const identities = [
    ...(await seedAgents(world.db, publicKeys.slice(0, INSTALLS), installs, INSTALL_SLOTS)),
    ...(await seedAgents(world.db, publicKeys.slice(INSTALLS), undefined, BUILD_SLOTS)),
  ]
  await world.server.child.call(
    'watchPools',
    installs.map((id) => `install:${id}`),
  )
  const connect = () =>
    swarm.call('connect', { server: world.server.facts, first: 0, identities, perSecond: 500 })
  const measures: Measure[] = []
  if (options.only.has('pickup')) {
    await connect()
    measures.push(...(await benchPickup(world, swarm, installs, options.pickups)))
    await swarm.call('disconnect')
  }
  const fleet = `${INSTALLS} install agents × ${INSTALL_SLOTS} slots and ${BUILD_AGENTS} build agents × ${BUILD_SLOTS}`
  if (options.only.has('throughput'))
    measures.push(
      ...(await benchThroughput(world, swarm, connect, {
        app,
        installs,
        components: COMPONENTS.length,
        fleet,
        seconds: options.seconds,
      })),
    )
  await swarm.stop()
  return measures
}

async function benchPickup(
  world: World,
  swarm: Child<SwarmCommands>,
  installs: string[],
  pickups: number,
): Promise<Measure[]> {
  const bare = world.startBare()
  const bareUrl = await bare.call('listen')
  const commits: number[] = []
  const trips: number[] = []
  const latencies: number[] = []
  const deploys = Math.ceil(pickups / 2 / ROUNDS)
  for (let at = 0; at < ROUNDS; at++) {
    commits.push(...(await commitTimes(world, 150)))
    trips.push(...(await roundTrips(bareUrl, 150)))
    let { total } = await swarm.call('settled')
    for (let i = 0; i < deploys; i++) {
      await world.client.call('deploys.create', {
        params: { ref: installs[i % installs.length]! },
        body: { components: ['web'] },
      })
      await swarm.call('waitSettled', (total += 2))
    }
    latencies.push(...pairUp(await world.server.child.call('stamps'), await swarm.call('assigned')))
  }
  await bare.stop()
  const line = (name: string, q: number, goal: Measure['goal'], note: string): Measure => {
    const commit = quantile(commits, q)
    const trip = quantile(trips, q)
    const latency = quantile(latencies, q)
    return {
      name,
      measured: `${round(latency)} ms`,
      baseline: `${round(commit)} ms commit + ${round(trip)} ms round trip`,
      value: latency / (commit + trip),
      unit: '×',
      goal,
      note,
    }
  }
  return [
    line(
      'pick-up p50',
      0.5,
      { most: 3 },
      `${latencies.length} jobs of deploys.create calls, one at a time; from the moment the server process has the answer to the job's COMMIT until the agent's channel hands over job.assign (other process, same monotonic clock)`,
    ),
    line('pick-up p99', 0.99, undefined, ''),
  ]
}

/** Per pool the n-th commit belongs to the n-th assignment: an install has one job at a time here. */
export function pairUp(
  commits: { pool: string; at: number }[],
  assigned: { pool: string; at: number }[],
): number[] {
  const byPool = new Map<string, number[]>()
  for (const { pool, at } of assigned) byPool.set(pool, [...(byPool.get(pool) ?? []), at])
  const taken = new Map<string, number>()
  return commits.flatMap(({ pool, at }) => {
    const index = taken.get(pool) ?? 0
    taken.set(pool, index + 1)
    const match = byPool.get(pool)?.[index]
    return match === undefined ? [] : [match - at]
  })
}
