import { createProcessRuntime } from '@tenon/agent'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'

const GRACE_SECONDS = 5

/** Jobs outlive their agent by design; when the whole world stops, they stop too, and the next start reports them as canceled. */
export async function stopLeftJobs(dir: string): Promise<number> {
  const installs = join(dir, 'customer', 'installs')
  const agents = [
    ...['build-agent', 'setup-agent'].map((name) => join(dir, name)),
    ...(existsSync(installs)
      ? readdirSync(installs).map((id) => join(installs, id, 'system', 'agent', 'data'))
      : []),
  ]
  let stopped = 0
  for (const jobs of agents.map((agent) => join(agent, 'jobs')).filter((path) => existsSync(path))) {
    const runtime = createProcessRuntime({ dir: jobs, log: pino({ level: 'silent' }) })
    const running = (await runtime.list()).filter((job) => job.state === 'running')
    await Promise.all(running.map((job) => runtime.stop(job.jobId, GRACE_SECONDS, 'canceled')))
    stopped += running.length
  }
  return stopped
}
