import { startProgram } from '../packages/dev-env/src/program.ts'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { residentBytes } from './memory.ts'
import { median, round, type Measure } from './report.ts'
import { seedApp, seedInstalls } from './seed.ts'
import type { World } from './world.ts'

const JOBS = 10

/** Goal 5: the agent's program as it ships, enrolled the real way, first idle, then with ten fake jobs that go on. */
export async function benchAgentMemory(world: World): Promise<Measure[]> {
  const endless = { fake: { sync: { untilReleased: true, lines: 100, intervalMs: 10 } } }
  const components = Array.from({ length: JOBS }, (_, i) => ({ name: `part-${i}`, config: endless }))
  const app = await seedApp(world.db, 'agent-memory', components)
  const [install] = await seedInstalls(world.db, app, 'agent-memory', 1)
  const agent = await startAgent(world, install!)
  try {
    await until(world, 'select 1 from agent where install_id = $1 and session_id is not null', install!, 1)
    const idle = await sample(agent.pid)
    await world.client.call('deploys.create', { params: { ref: install! }, body: {} })
    await until(world, `select 1 from job where install_id = $1 and status = 'running'`, install!, JOBS)
    const busy = await sample(agent.pid)
    const bare = await benchBareProcess(world)
    const line = (name: string, bytes: number): Measure => ({
      name,
      measured: `${round(megabytes(bytes))} MB`,
      baseline: `${round(megabytes(bare))} MB for Node with an open WebSocket (${round(bytes / bare)}×)`,
      value: megabytes(bytes),
      unit: ' MB',
      goal: { most: 80 },
      note: '',
    })
    return [
      line('agent memory, idle', idle),
      {
        ...line(`agent memory, ${JOBS} jobs`, busy),
        note: 'dist/agent.mjs, resident memory from the kernel, no forced collection; fake runtime, so the memory of the jobs themselves is not in it',
      },
    ]
  } finally {
    await agent.stop()
  }
}

async function startAgent(world: World, install: string) {
  const dir = join(world.dir, 'agent')
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const { joinToken } = await world.client.call('installs.joinToken', { params: { ref: install } })
  writeFileSync(join(dir, 'join-token'), joinToken, { mode: 0o600 })
  const agent = startProgram({
    name: 'agent',
    bundle: join(world.dist, 'agent.mjs'),
    logFile: join(world.dir, 'agent.log'),
    env: {
      PATH: process.env['PATH'] ?? '',
      TENON_SERVER_URL: world.server.facts.url,
      TENON_AGENT_DIR: dir,
      TENON_JOIN_TOKEN_FILE: join(dir, 'join-token'),
      TENON_RUNTIME: 'fake',
      TENON_SLOTS: String(JOBS),
    },
  })
  world.onClose(() => agent.stop())
  return agent
}

async function benchBareProcess(world: World): Promise<number> {
  const server = world.startBare()
  const client = world.startBare()
  await client.call('connect', await server.call('listen'))
  const bytes = await sample(client.pid)
  await Promise.all([server.stop(), client.stop()])
  return bytes
}

async function sample(pid: number): Promise<number> {
  await pause(4000)
  const samples: number[] = []
  for (let i = 0; i < 10; i++) {
    samples.push(residentBytes(pid))
    await pause(500)
  }
  return median(samples)
}

async function until(world: World, query: string, install: string, rows: number): Promise<void> {
  const deadline = Date.now() + 30_000
  while ((await world.db.query(query, [install])).rows.length < rows) {
    if (Date.now() > deadline) throw new Error(`not within 30 s: ${rows} of ${query}`)
    await pause(50)
  }
}

function megabytes(bytes: number): number {
  return bytes / 1_048_576
}
