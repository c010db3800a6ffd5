import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { benchAgentMemory } from './agent-memory.ts'
import { benchFleet } from './fleet.ts'
import { benchJobs } from './jobs.ts'
import { judge, table, type Measure } from './report.ts'
import { openWorld, type World } from './world.ts'

const NAMES = ['pickup', 'throughput', 'memory', 'reconnect', 'agent'] as const
const HELP = `npm run bench -- [--json] [--strict] [--only ${NAMES.join(',')}] [--agents 5000] [--seconds 4] [--profile DIR]
  --strict   exit code 1 when a goal is missed
  --profile  CPU profiles of server and swarm while jobs are counted, into this folder
Ratios to a baseline of the same run are what counts; absolute times depend on the machine and on who else uses it.`

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    strict: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
    only: { type: 'string', default: NAMES.join(',') },
    agents: { type: 'string', default: '5000' },
    seconds: { type: 'string', default: '4' },
    profile: { type: 'string' },
  },
})

if (values.help) process.stdout.write(`${HELP}\n`)
else process.exitCode = await run()

async function run(): Promise<number> {
  const dist = dirname(dirname(fileURLToPath(import.meta.url)))
  const parent = join(dirname(dist), '.tenon')
  mkdirSync(parent, { recursive: true, mode: 0o700 })
  const dir = mkdtempSync(join(parent, 'bench-'))
  const only = new Set(values.only.split(','))
  const say = (line: string) => process.stderr.write(`${line}\n`)
  let world: World | undefined
  const interrupted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.once(signal, () => reject(new Error(`stopped by ${signal}`)))
  })
  try {
    world = await openWorld(dist, dir, values.profile)
    const measures = await Promise.race([measureAll(world, only, say), interrupted])
    const judged = measures.map(judge)
    const machine = `${cpus().length} cores, ${Math.round(totalmem() / 1e9)} GB, Node ${process.version}, PostgreSQL with fsync and synchronous_commit on`
    process.stdout.write(
      values.json
        ? `${JSON.stringify({ machine, measures: judged }, null, 2)}\n`
        : `\n${table(judged)}\n- ${machine}\n`,
    )
    return values.strict && judged.some((m) => m.verdict === 'missed') ? 1 : 0
  } catch (error) {
    for (const name of readdirSync(dir).filter((file) => file.endsWith('.log')))
      say(`${name}: ${readFileSync(join(dir, name), 'utf8').slice(-2000)}`)
    throw error
  } finally {
    await world?.close()
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function measureAll(
  world: World,
  only: ReadonlySet<string>,
  say: (line: string) => void,
): Promise<Measure[]> {
  const agents = Number(values.agents)
  const parts: [string, string[], () => Promise<Measure[]>][] = [
    ['the memory of an agent', ['agent'], () => benchAgentMemory(world)],
    [
      'jobs: pick-up and throughput',
      ['pickup', 'throughput'],
      () => benchJobs(world, { pickups: 300, seconds: Number(values.seconds), only }),
    ],
    [`a fleet of ${agents} agents`, ['memory', 'reconnect'], () => benchFleet(world, { agents, only })],
  ]
  const measures: Measure[] = []
  for (const [what, names, measure] of parts.filter(([, names]) => names.some((name) => only.has(name)))) {
    say(`${what} …`)
    // One part that fails on a crowded machine must not cost what the others measured.
    measures.push(...(await measure().catch((error: unknown) => [failed(names, error)])))
  }
  return measures
}

function failed(names: string[], error: unknown): Measure {
  const note = error instanceof Error ? error.message : String(error)
  const name = names.filter((one) => values.only.includes(one)).join(', ')
  return { name, measured: 'failed', baseline: '', value: Number.NaN, unit: '', goal: { most: 0 }, note }
}
