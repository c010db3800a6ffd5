import {
  missingFor,
  startEngine,
  type EngineName,
} from '../packages/agent/src/runtime/docker/engines.testing.ts'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { bareEngine, bareProcess, type BareRun } from './bare-engines.ts'
import {
  bareKubernetes,
  loadImage,
  missingCluster,
  openGate,
  openNamespace,
  type Gate,
} from './kubernetes.ts'
import { judge, median, quantile, round, table, type Measure } from './report.ts'
import { RuntimeAgent } from './runtime-agent.ts'

const HELP = `npm run bench:runtimes -- [--json] [--strict] [--only process,docker,podman,kubernetes] [--rounds 30] [--jobs 60]
  --strict   exit code 1 when a goal is missed
A job is what its walls cost (bubblewrap, a container) plus what Tenon adds; both sides run the same program in one run,
in turns, and only the difference is judged. The kubelet looks at its pods once a second, so what a job takes there is luck:
the starts go through that second in even steps, one for each round.`

const { values } = parseArgs({
  options: {
    agent: { type: 'string', default: '' },
    root: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
    strict: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
    only: { type: 'string', default: 'process,docker,podman,kubernetes' },
    rounds: { type: 'string', default: '30' },
    jobs: { type: 'string', default: '60' },
  },
})
const ROUNDS = Number(values.rounds)
const JOBS = Number(values.jobs)
const AT_ONCE = 8
const RUNNING = 50

/** The program that both sides start: Node, one line of output. Beside a file `hold` it stays until that is gone. */
const PROGRAM = `
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
const hold = join(dirname((process.env.TENON_JOB_URL ?? '').slice('unix:'.length)), 'hold')
console.log('at work')
while (process.env.TENON_JOB_URL && existsSync(hold)) await new Promise((resolve) => setTimeout(resolve, 200))
`

/** One way to run jobs, with and without Tenon. A further runtime is one more of these. */
interface Subject {
  name: string
  /** Most milliseconds that Tenon may add to a job, at the median. */
  goalMs: number
  /** How often what runs the jobs looks at them, where it does not notice by itself. */
  beatMs?: number
  missing(): Promise<string | undefined>
  open(dir: string, programs: string): Promise<Opened>
}

interface Opened {
  env: Record<string, string>
  bare: BareRun
  /** Where jobs cannot see the agent's folder: what they wait for instead. */
  gate?: Gate
  /** After each round, outside of what is timed. */
  tidy(): Promise<void>
  close(): Promise<void>
}

const SUBJECTS: Subject[] = [
  {
    name: 'process',
    goalMs: 25,
    missing: async () => undefined,
    open: async (dir, programs) => ({
      env: { TENON_RUNTIME: 'process' },
      bare: await bareProcess(dir, [process.execPath, join(programs, 'job.mjs')]),
      tidy: async () => undefined,
      close: async () => undefined,
    }),
  },
  engineSubject('docker'),
  engineSubject('podman'),
  {
    name: 'kubernetes',
    goalMs: 150,
    beatMs: 1000,
    missing: async () => missingCluster(),
    open: openKubernetes,
  },
]

async function openKubernetes(dir: string, programs: string): Promise<Opened> {
  const host = process.env['TENON_KUBERNETES_HOST_IP'] ?? ''
  const gate = await openGate(host)
  writeFileSync(join(programs, 'job.mjs'), gate.program)
  const namespace = `tenon-bench-${process.pid}`
  const space = openNamespace(namespace)
  const image = loadImage(buildImage(dir, programs))
  const bare = await bareKubernetes(namespace, image)
  return {
    env: {
      TENON_RUNTIME: 'kubernetes',
      TENON_JOB_IMAGE: image,
      TENON_KUBERNETES_NAMESPACE: namespace,
      TENON_KUBERNETES_SCHEDULE_SECONDS: '300',
      TENON_JOB_API_URL: `https://${host}:8443`,
      TENON_JOB_API_LISTEN: `${host}:8443`,
      KUBECONFIG: process.env['KUBECONFIG'] ?? '',
    },
    bare,
    gate,
    tidy: () => bare.removeAll(),
    close: async () => {
      gate.close()
      space.close()
    },
  }
}

interface JobImage {
  file: string
  reference: string
  imageId: string
  digest: string
}

function buildImage(dir: string, programs: string): JobImage {
  const script = join(values.root, 'scripts/images.mjs')
  const args = [script, '--no-tools', '--dist', programs, '--outdir', dir]
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as JobImage
}

function engineSubject(name: EngineName): Subject {
  return {
    name,
    goalMs: 60,
    missing: () => missingFor(name),
    async open(dir, programs) {
      const engine = await startEngine(name)
      const image = buildImage(dir, programs)
      await engine.load(image)
      const bare = bareEngine(engine.socketPath, image.imageId)
      return {
        env: {
          TENON_RUNTIME: 'docker',
          TENON_JOB_IMAGE: image.imageId,
          TENON_DOCKER_SOCKET: engine.socketPath,
        },
        bare,
        tidy: () => bare.removeAll(),
        close: () => engine.close(),
      }
    },
  }
}

if (values.help) process.stdout.write(`${HELP}\n`)
else process.exitCode = await main()

async function main(): Promise<number> {
  const measures: Measure[] = []
  for (const subject of SUBJECTS.filter(({ name }) => values.only.split(',').includes(name))) {
    const missing = await subject.missing()
    process.stderr.write(`${subject.name} …${missing === undefined ? '' : ` left out: ${missing}`}\n`)
    if (missing === undefined) measures.push(...(await measure(subject)))
  }
  const judged = measures.map(judge)
  const machine = `${cpus().length} cores, ${Math.round(totalmem() / 1e9)} GB, Node ${process.version}`
  process.stdout.write(
    values.json
      ? `${JSON.stringify({ machine, measures: judged }, null, 2)}\n`
      : `\n${table(judged)}\n- ${machine}\n`,
  )
  return values.strict && judged.some(({ verdict }) => verdict === 'missed') ? 1 : 0
}

async function measure(subject: Subject): Promise<Measure[]> {
  const dir = mkdtempSync(join(tmpdir(), 'tenon-bench-'))
  const programs = join(dir, 'programs')
  mkdirSync(programs)
  writeFileSync(join(programs, 'job.mjs'), PROGRAM)
  const opened = await subject.open(dir, programs)
  const slots = Math.max(AT_ONCE, RUNNING)
  const options = { dir: join(dir, 'agent'), bundle: values.agent, programs, slots, env: opened.env }
  const agent = await RuntimeAgent.start(options)
  try {
    return [
      await perJob(subject, opened, agent),
      await perSecond(subject, opened, agent),
      await memory(subject, opened, agent),
    ]
  } finally {
    opened.gate?.open()
    agent.openGate()
    await agent.stop()
    await opened.close()
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** In turns, so that both sides meet the same machine. */
async function perJob(subject: Subject, opened: Opened, agent: RuntimeAgent): Promise<Measure> {
  const { name, goalMs, beatMs = 0 } = subject
  const ours: number[] = []
  const bare: number[] = []
  for (let turn = -2; turn < ROUNDS; turn++) {
    const offset = (beatMs * Math.max(0, turn)) / ROUNDS
    await untilBeat(beatMs, offset)
    const our = await timed(() => agent.run())
    await untilBeat(beatMs, offset)
    const their = await timed(opened.bare)
    await Promise.all([agent.idle(), opened.tidy()])
    if (turn < 0) continue
    ours.push(our)
    bare.push(their)
  }
  const steps = beatMs === 0 ? '' : `; started in even steps through ${beatMs} ms`
  return {
    name: `${name}: one job, p50`,
    measured: spread(ours),
    baseline: `${spread(bare)} bare`,
    value: median(ours) - median(bare),
    unit: ' ms added',
    goal: { most: goalMs },
    note: `${ROUNDS} jobs each, quartiles in brackets; from the assignment's frame to the report's, journal on disk; the bare side until its output is read${steps}`,
  }
}

function spread(times: readonly number[]): string {
  return `${round(median(times))} ms (${round(quantile(times, 0.25))}–${round(quantile(times, 0.75))})`
}

async function untilBeat(beatMs: number, offset: number): Promise<void> {
  if (beatMs > 0) await pause((offset - (performance.now() % beatMs) + beatMs) % beatMs)
}

async function perSecond({ name }: Subject, opened: Opened, agent: RuntimeAgent): Promise<Measure> {
  const ours = await timed(() => inParallel(() => agent.run()))
  await agent.idle()
  const bare = await timed(() => inParallel(opened.bare))
  await opened.tidy()
  const rate = (ms: number) => (JOBS * 1000) / ms
  return {
    name: `${name}: jobs per second, ${AT_ONCE} at once`,
    measured: `${round(rate(ours))}/s`,
    baseline: `${round(rate(bare))}/s bare`,
    value: rate(ours),
    unit: '/s',
    goal: undefined,
    note: '',
  }
}

async function memory({ name }: Subject, opened: Opened, agent: RuntimeAgent): Promise<Measure> {
  const idle = agent.residentBytes
  opened.gate?.shut()
  await agent.hold(RUNNING)
  await pause(2000)
  const busy = agent.residentBytes
  opened.gate?.open()
  agent.openGate()
  await agent.idle()
  return {
    name: `${name}: agent memory, ${RUNNING} jobs run`,
    measured: `${round(busy / 1_048_576)} MB`,
    baseline: `${round(idle / 1_048_576)} MB before, idle`,
    value: busy / 1_048_576,
    unit: ' MB',
    goal: undefined,
    note: '',
  }
}

async function inParallel(run: () => Promise<void>): Promise<void> {
  let left = JOBS
  const worker = async () => {
    while (left-- > 0) await run()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

async function timed(run: () => Promise<void>): Promise<number> {
  const start = performance.now()
  await run()
  return performance.now() - start
}
