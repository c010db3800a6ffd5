import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { commitRate } from './baselines.ts'
import type { Child } from './child.ts'
import { cpuTimes, type CpuTimes } from './cpu.ts'
import { median, round, type Measure } from './report.ts'
import type { SwarmCommands } from './swarm-program.ts'
import type { World } from './world.ts'

const ROUNDS = 3
const WARM_UP_MS = 1500
/** Waiting before a round, as if this share of the single-row commits were jobs: twice what the goal asks for. */
const SUPPLY = 0.5
/** Of the jobs that wait, so many are builds; the others are of runs. */
const BUILDS = 0.2
/** Each component is synced and deployed. */
const JOBS_OF_COMPONENT = 2
/** Besides the default: the baseline grows with connections, since their commits share a flush; few show a commit's own price. */
const FEW_CONNECTIONS = 3

export interface Load {
  app: { id: string; name: string }
  installs: string[]
  /** Of the app. */
  components: number
  /** What the agents are, for people. */
  fleet: string
  seconds: number
}

type Swarm = Child<SwarmCommands>

/** Finished jobs per second, with the default number of connections and with few. */
export async function benchThroughput(
  world: World,
  swarm: Swarm,
  connect: () => Promise<void>,
  load: Load,
): Promise<Measure[]> {
  const usual = world.poolSize
  const measures = [await measureJobs(world, swarm, connect, load)]
  await world.restartServer('stop', 0, FEW_CONNECTIONS)
  measures.push(await measureJobs(world, swarm, connect, load))
  await world.restartServer('stop', 0, usual)
  return measures
}

interface Round {
  perSecond: number
  kinds: Record<string, number>
  cpu: CpuTimes
  /** How many connections were at work, each time somebody looked. */
  busy: number[]
}

async function measureJobs(
  world: World,
  swarm: Swarm,
  connect: () => Promise<void>,
  load: Load,
): Promise<Measure> {
  const baselines = [await commitRate(world, 2)]
  const rounds: Round[] = []
  for (let at = 0; at < ROUNDS; at++) {
    await supply(world, load, baselines[0]!.perSecond)
    await connect()
    await pause(WARM_UP_MS)
    rounds.push(await countJobs(world, swarm, load.seconds, `${world.poolSize}-${at}`))
    await swarm.call('disconnect')
    await requireLeft(world)
    baselines.push(await commitRate(world, 2))
  }
  const perSecond = median(baselines.map((one) => one.perSecond))
  const rates = rounds.map((one) => one.perSecond)
  return {
    name: `finished jobs per second, ${world.poolSize} connections`,
    measured: `${round(median(rates))}/s (${rates.map(round).join(', ')})`,
    baseline: `${round(perSecond)}/s single-row commits, ${world.poolSize} connections`,
    value: median(rates) / perSecond,
    unit: ' of it',
    goal: { least: 0.25 },
    note: noteOf(load, rounds, median(baselines.map((one) => one.cpuUs))),
  }
}

/** What is left over of the round before is there for the next. */
async function supply(world: World, load: Load, commitsPerSecond: number): Promise<void> {
  const { child } = world.server
  const jobs = SUPPLY * commitsPerSecond * (load.seconds + WARM_UP_MS / 1000)
  const left = await countLeft(world)
  const builds = Math.ceil(jobs * BUILDS) - left.builds
  const runs = (jobs * (1 - BUILDS)) / (load.components * JOBS_OF_COMPONENT) - left.runs
  if (builds > 0) await child.call('queueBuilds', { app: load.app, component: 'web', count: builds })
  const each = Math.ceil(runs / load.installs.length)
  if (each > 0) await child.call('queueRuns', { installs: load.installs, each })
}

/** Agents that found nothing to do would have been measured, not the server. */
async function requireLeft(world: World): Promise<void> {
  const { runs } = await countLeft(world)
  if (runs === 0) throw new Error('the runs were all done before the round was over: nothing was measured')
}

async function countLeft(world: World): Promise<{ builds: number; runs: number }> {
  const { rows } = await world.db.query<{ builds: number; runs: number }>(
    `select (select count(*) from build where status = 'queued')::int as builds,
       (select count(*) from run where status = 'queued')::int as runs`,
  )
  return rows[0]!
}

async function countJobs(world: World, swarm: Swarm, seconds: number, name: string): Promise<Round> {
  const { profileDir, server } = world
  const { child } = server
  if (profileDir) await Promise.all([child.call('profileStart'), swarm.call('profileStart')])
  const used = () => cpuTimes(world.db, child.pid, swarm.pid)
  const usedBefore = await used()
  const before = await swarm.call('settled')
  const busy = await watchConnections(world, seconds)
  const after = await swarm.call('settled')
  const usedAfter = await used()
  if (profileDir) {
    await child.call('profileStop', join(profileDir, `server-${name}.cpuprofile`))
    await swarm.call('profileStop', join(profileDir, `swarm-${name}.cpuprofile`))
  }
  const counted = Object.entries(after.kinds).map(([kind, count]) => [
    kind,
    count - (before.kinds[kind] ?? 0),
  ])
  return {
    perSecond: (after.total - before.total) / ((after.at - before.at) / 1000),
    kinds: Object.fromEntries(counted) as Record<string, number>,
    cpu: {
      postgres: usedAfter.postgres - usedBefore.postgres,
      server: usedAfter.server - usedBefore.server,
      swarm: usedAfter.swarm - usedBefore.swarm,
    },
    busy,
  }
}

const LOOK_MS = 50

async function watchConnections(world: World, seconds: number): Promise<number[]> {
  const busy: number[] = []
  for (const until = performance.now() + seconds * 1000; performance.now() < until; await pause(LOOK_MS)) {
    const { rows } = await world.db.query<{ busy: number }>(
      `select count(*)::int as busy from pg_stat_activity
       where backend_type = 'client backend' and state <> 'idle' and pid <> pg_backend_pid()`,
    )
    busy.push(rows[0]!.busy)
  }
  return busy
}

function noteOf(load: Load, rounds: readonly Round[], commitUs: number): string {
  const kinds = [...new Set(rounds.flatMap((one) => Object.keys(one.kinds)))]
  const count = (kind: string) => rounds.reduce((sum, one) => sum + (one.kinds[kind] ?? 0), 0)
  const total = kinds.reduce((sum, kind) => sum + count(kind), 0)
  const mix = kinds.map((kind) => `${((100 * count(kind)) / total).toFixed(0)} % ${kind}`)
  const parts = (['postgres', 'server', 'swarm'] as const).map(
    (part) => `${part} ${round(rounds.reduce((sum, one) => sum + one.cpu[part], 0) / total)} µs`,
  )
  const busy = rounds.flatMap((one) => one.busy)
  const mean = busy.reduce((sum, one) => sum + one, 0) / busy.length
  const inUse = `connections at work: ${round(mean)} on average, ${Math.max(...busy)} at most`
  return `decided or queued → given → accepted, started, finished with a signed report → stored and audited; ${mix.join(', ')}; runs of ${load.components} components; ${load.fleet} (real channel, jobs that end at once) in one process beside the server; ${inUse}; processor time per job: ${parts.join(', ')}; of a single-row commit: ${round(commitUs)} µs`
}
