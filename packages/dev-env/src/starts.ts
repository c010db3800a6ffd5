import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Start {
  jobId: string
  fence: number
  startedAt: number
}

/** Every start that a fake runtime under `dir` recorded. One that was copied with its agent's folder counts once. */
export function startsOf(dir: string): Start[] {
  const lines = new Set<string>()
  for (const agent of readdirSync(dir)) {
    const file = join(dir, agent, 'jobs', 'starts.log')
    if (!existsSync(file)) continue
    for (const line of readFileSync(file, 'utf8').split('\n')) if (line !== '') lines.add(line)
  }
  return [...lines].map((line) => JSON.parse(line) as Start)
}

/** Fake jobs that an agent has not removed yet. */
export function jobsLeft(dir: string, agent: string): string[] {
  const jobs = join(dir, agent, 'jobs')
  return existsSync(jobs) ? readdirSync(jobs).filter((name) => name.endsWith('.json')) : []
}
