// npm run soak [-- --minutes 60]: what is only seen when it is done often, or while others use the machine. Each task in turn, over
// and over until the time is up; the first round always whole unless the time ends it.
//   --only NAME        one of the tasks
//   --test FILE [-t X] instead of them: one test, over and over, while both cores are busy
import { spawn } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    only: { type: 'string' },
    test: { type: 'string' },
    t: { type: 'string', short: 't' },
  },
})

const KILLS = ['packages/oci/src/kill.test.ts', 'packages/dev-env/src/sync-deaths.test.ts']
const TASKS = [
  { name: 'scenarios', command: ['node', 'scripts/scenarios.mjs', '--times', '20'] },
  { name: 'kill-points', command: ['npm', 'test', '--', ...KILLS], env: { TENON_KILL_POINTS: '20' } },
  { name: 'many-jobs', command: ['npm', 'run', 'test:engines'], env: { TENON_MANY_JOBS: '100' } },
  { name: 'under-load', command: ['npm', 'test'], busy: 2 },
]

const end = Date.now() + Number(values.minutes) * 60_000
const tasks = chosen()
const tallies = new Map(tasks.map(({ name }) => [name, { passed: 0, failed: 0, cut: 0 }]))
for (let turn = 0; Date.now() < end; turn++) {
  const task = tasks[turn % tasks.length]
  const outcome = await runTask(task)
  tallies.get(task.name)[outcome]++
  console.log(
    `\n=== ${task.name}: ${outcome}, ${Math.max(0, Math.round((end - Date.now()) / 60_000))} minutes left`,
  )
}
for (const [name, { passed, failed, cut }] of tallies)
  console.log(
    `${name.padEnd(12)} ${passed} passed, ${failed} failed${cut ? `, ${cut} cut off by the end` : ''}`,
  )
process.exitCode = [...tallies.values()].some(({ failed }) => failed > 0) ? 1 : 0

function chosen() {
  if (values.test) {
    const pattern = values.t ? ['-t', values.t] : []
    return [{ name: 'test', command: ['npx', 'vitest', 'run', values.test, ...pattern], busy: 2 }]
  }
  const found = values.only ? TASKS.filter(({ name }) => name === values.only) : TASKS
  if (found.length > 0) return found
  console.error(`There is no task ${values.only}. Tasks: ${TASKS.map(({ name }) => name).join(', ')}.`)
  process.exit(2)
}

async function runTask({ command: [program, ...args], env, busy = 0 }) {
  const load = Array.from({ length: busy }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  )
  const child = spawn(program, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: 'inherit',
    detached: true,
  })
  let isCut = false
  const alarm = setTimeout(
    () => {
      isCut = true
      process.kill(-child.pid, 'SIGTERM')
    },
    Math.max(1000, end - Date.now()),
  )
  const code = await new Promise((done) => child.on('close', done))
  clearTimeout(alarm)
  for (const other of load) other.kill('SIGKILL')
  if (isCut) return 'cut'
  return code === 0 ? 'passed' : 'failed'
}
