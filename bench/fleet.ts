import { setTimeout as pause } from 'node:timers/promises'
import type { Child } from './child.ts'
import type { Identity } from './lean-agent.ts'
import type { Memory } from './memory.ts'
import { quantile, round, type Measure } from './report.ts'
import { seedAgents, seedApp, seedInstalls } from './seed.ts'
import type { SwarmCommands } from './swarm-program.ts'
import type { World } from './world.ts'

/** Two processes, since one may hold only so many open files. */
const SWARMS = 2
const WARM_UP = 200
/** Long enough that every agent's back-off has reached its cap when the server comes back. */
const AWAY_MS = 15_000
const CONNECTS_PER_SECOND = 250

interface Swarm {
  child: Child<SwarmCommands>
  identities: Identity[]
}

/** Goals 3 and 4 share a fleet of idle agents. */
export async function benchFleet(
  world: World,
  options: { agents: number; only: ReadonlySet<string> },
): Promise<Measure[]> {
  const { agents, only } = options
  const bare = await benchBare(world, agents)
  const swarms = await makeSwarms(world, agents)
  await world.restartServer('stop', 0)
  await pingPong(world, swarms[0]!)
  const before = await world.server.child.call('memory')
  await connectAll(world, swarms)
  const measures: Measure[] = []
  if (only.has('memory')) {
    // Two heartbeats of each, so that what a living session needs is there.
    await pause(20_000)
    const after = await world.server.child.call('memory')
    measures.push(memoryLine(agents, before, after, bare))
  }
  if (only.has('reconnect')) measures.push(await benchReconnect(world, swarms, agents, bare.connectMs))
  await Promise.all(swarms.map((swarm) => swarm.child.stop()))
  return measures
}

async function benchReconnect(
  world: World,
  swarms: Swarm[],
  agents: number,
  bareMs: number,
): Promise<Measure> {
  await Promise.all(swarms.map((swarm) => swarm.child.call('forgetWelcomes')))
  await world.restartServer('SIGKILL', AWAY_MS)
  const times = await Promise.all(
    swarms.map((swarm) =>
      swarm.child.call('welcomed', { count: swarm.identities.length, withinMs: 120_000 }),
    ),
  )
  const seconds = times.flat().map((at) => (at - world.server.listeningAt) / 1000)
  const last = Math.max(...seconds)
  return {
    name: `reconnect of ${agents} agents`,
    measured: `${round(last)} s (half ${round(quantile(seconds, 0.5))} s)`,
    baseline: `${round(bareMs / 1000)} s for ${agents} bare WebSockets dialled at once (${round((last * 1000) / bareMs)}×)`,
    value: last,
    unit: ' s',
    goal: { most: 15 },
    note: `kill -9, ${AWAY_MS / 1000} s away so that the agents' real back-off is at its cap of 8 s with full jitter, then from the moment the new process listens until the last agent is welcomed`,
  }
}

function memoryLine(agents: number, before: Memory, after: Memory, bare: Bare): Measure {
  const perAgent = (from: Memory, to: Memory, what: keyof Memory) => (to[what] - from[what]) / agents / 1024
  const rss = perAgent(before, after, 'rss')
  const bareRss = perAgent(bare.before, bare.after, 'rss')
  const heap = perAgent(before, after, 'heapUsed')
  const bareHeap = perAgent(bare.before, bare.after, 'heapUsed')
  return {
    name: `server memory per idle agent, ${agents}`,
    measured: `${round(rss)} kB resident, ${round(heap)} kB heap`,
    baseline: `${round(bareRss)} kB resident, ${round(bareHeap)} kB heap per bare WebSocket (${round(rss / bareRss)}×)`,
    value: rss,
    unit: ' kB',
    goal: { most: 15 },
    note: 'difference of the server process after full collections, warmed up before; agents and installs were inserted with SQL, the handshake is real',
  }
}

interface Bare {
  before: Memory
  after: Memory
  connectMs: number
}

async function benchBare(world: World, agents: number): Promise<Bare> {
  const server = world.startBare()
  const clients = Array.from({ length: SWARMS }, () => world.startSwarm())
  const url = await server.call('listen')
  await clients[0]!.call('connectBare', { url, count: WARM_UP })
  await clients[0]!.call('disconnectBare')
  const before = await server.call('memory')
  const times = await Promise.all(
    clients.map((client) => client.call('connectBare', { url, count: agents / SWARMS })),
  )
  await pause(2000)
  const after = await server.call('memory')
  await Promise.all([server, ...clients].map((child) => child.stop()))
  return { before, after, connectMs: Math.max(...times) }
}

async function makeSwarms(world: World, agents: number): Promise<Swarm[]> {
  const app = await seedApp(world.db, 'fleet', [{ name: 'web', config: {} }])
  const swarms: Swarm[] = []
  for (let i = 0; i < SWARMS; i++) {
    const child = world.startSwarm()
    const publicKeys = await child.call('makeKeys', agents / SWARMS)
    const installs = await seedInstalls(world.db, app, `fleet-${i}`, publicKeys.length)
    swarms.push({ child, identities: await seedAgents(world.db, publicKeys, installs, 4) })
  }
  return swarms
}

/** Some agents come and go, so that code and caches of a first session do not count as memory of the agents. */
async function pingPong(world: World, swarm: Swarm): Promise<void> {
  const identities = swarm.identities.slice(0, WARM_UP)
  for (let i = 0; i < 3; i++) {
    await swarm.child.call('connect', {
      server: world.server.facts,
      first: 0,
      identities,
      perSecond: CONNECTS_PER_SECOND,
    })
    await swarm.child.call('disconnect')
  }
}

async function connectAll(world: World, swarms: Swarm[]): Promise<void> {
  await Promise.all(
    swarms.map((swarm) =>
      swarm.child.call('connect', {
        server: world.server.facts,
        first: 0,
        identities: swarm.identities,
        perSecond: CONNECTS_PER_SECOND,
      }),
    ),
  )
}
