// Tasks in turn, over and over until the time is up: each as a process that ends with it.
import { spawn } from 'node:child_process'
import { runStage } from './run-stage.mjs'
import { summarizeSoak } from './soak-tasks.mjs'

/**
 * @param {{ tasks: { name: string, command: string[], env?: Record<string, string>, busy?: number }[], minutes: number, cwd: string, stdio?: 'inherit' | 'ignore' }} asked
 * @returns {Promise<{ lines: string[], code: number }>}
 */
export async function soak({ tasks, minutes, cwd, stdio = 'inherit' }) {
  const end = Date.now() + minutes * 60_000
  const minutesLeft = () => Math.max(0, end - Date.now()) / 60_000
  const tallies = new Map(tasks.map(({ name }) => [name, { passed: 0, failed: 0, cut: 0 }]))
  for (let turn = 0; minutesLeft() > 0; turn++) {
    const task = tasks[turn % tasks.length]
    const outcome = await runTask(task, { cwd, minutes: minutesLeft(), stdio })
    tallies.get(task.name)[outcome]++
    console.log(`\n=== ${task.name}: ${outcome}, ${Math.round(minutesLeft())} minutes left`)
  }
  return summarizeSoak([...tallies])
}

/** What is still at it when the time is up is cut off, which says nothing about it. */
async function runTask({ command, env, busy = 0 }, { cwd, minutes, stdio }) {
  const load = Array.from({ length: busy }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  )
  try {
    const outcome = await runStage({ command }, { cwd, env: { ...process.env, ...env }, minutes, stdio })
    return outcome === 'hung' ? 'cut' : outcome
  } finally {
    for (const one of load) one.kill('SIGKILL')
  }
}
