import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { commitRate, commitTimes, prepareRows, roundTrips } from './baselines.ts'
import type { Child } from './child.ts'
import { cpuTimes, type CpuTimes } from './cpu.ts'
import { median, quantile, round, type Measure } from './report.ts'
import { seedAgents, seedApp, seedInstalls } from './seed.ts'
import type { SwarmCommands } from './swarm-program.ts'
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
  if (options.only.has('throughput'))
    measures.push(await benchThroughput(world, swarm, connect, { app, installs, seconds: options.seconds }))
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

async function benchThroughput(
  world: World,
  swarm: Child<SwarmCommands>,
  connect: () => Promise<void>,
  load: { app: { id: string; name: string }; installs: string[]; seconds: number },
): Promise<Measure> {
  const { app, installs, seconds } = load
  const baselines = [await commitRate(world, 2)]
  const rates: number[] = []
  const kinds: Record<string, number> = {}
  const cpu: CpuTimes = { postgres: 0, server: 0, swarm: 0 }
  const { child } = world.server
  for (let at = 0; at < ROUNDS; at++) {
    // Enough that neither kind runs out during the window; what is left over is there for the next round.
    await child.call('queueBuilds', { app, component: 'web', count: 600 * seconds })
    await child.call('queueRuns', { installs, each: 3 * seconds })
    await connect()
    await pause(1500)
    const { profileDir } = world
    if (profileDir) await Promise.all([child.call('profileStart'), swarm.call('profileStart')])
    const used = () => cpuTimes(world.db, child.pid, swarm.pid)
    const usedBefore = await used()
    const before = await swarm.call('settled')
    await pause(seconds * 1000)
    const after = await swarm.call('settled')
    const usedAfter = await used()
    if (profileDir) {
      await child.call('profileStop', join(profileDir, `server-${at}.cpuprofile`))
      await swarm.call('profileStop', join(profileDir, `swarm-${at}.cpuprofile`))
    }
    for (const part of Object.keys(cpu) as (keyof CpuTimes)[]) cpu[part] += usedAfter[part] - usedBefore[part]
    await swarm.call('disconnect')
    rates.push((after.total - before.total) / ((after.at - before.at) / 1000))
    for (const [kind, count] of Object.entries(after.kinds))
      kinds[kind] = (kinds[kind] ?? 0) + count - (before.kinds[kind] ?? 0)
    baselines.push(await commitRate(world, 2))
  }
  const total = Object.values(kinds).reduce((sum, count) => sum + count, 0)
  const mix = Object.entries(kinds).map(([kind, count]) => `${((100 * count) / total).toFixed(0)} % ${kind}`)
  const perSecond = median(baselines.map((one) => one.perSecond))
  const perCommit = median(baselines.map((one) => one.cpuUs))
  const parts = Object.entries(cpu).map(([part, us]) => `${part} ${round(us / total)} µs`)
  return {
    name: 'finished jobs per second',
    measured: `${round(median(rates))}/s (${rates.map(round).join(', ')})`,
    baseline: `${round(perSecond)}/s single-row commits, ${world.poolSize} connections`,
    value: median(rates) / perSecond,
    unit: ' of it',
    goal: { least: 0.25 },
    note: `queued → claimed → sent → accepted, started, finished with a signed report → stored and audited; ${mix.join(', ')}; runs of ${COMPONENTS.length} components; ${INSTALLS} install agents × ${INSTALL_SLOTS} slots and ${BUILD_AGENTS} build agents × ${BUILD_SLOTS} (real channel, jobs that end at once) in one process beside the server; processor time per job: ${parts.join(', ')}; of a single-row commit: ${round(perCommit)} µs`,
  }
}
