import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect } from 'vitest'
import { bundleProgram } from './docker/engines.testing.ts'
import type { Runtime } from './runtime.ts'

const never = new AbortController().signal
const JOBS = Array.from({ length: 10 }, (_, index) => `survivor-${index}`)
const FENCE = 8

/** For the program of an agent: a script that prints, holds until `isOpen` does, prints again and ends with 9. */
export const SURVIVOR = `
const part = (from, to) => 'i=' + from + '; while [ $i -lt ' + to + ' ]; do i=$((i + 1)); echo "line $i"; done'
const survivor = (isOpen) => part(0, 20) + '; until ' + isOpen + '; do sleep 0.2; done; ' + part(20, 40) + '; exit 9'
const quiet = { info() {}, warn() {}, error() {}, debug() {} }
const tell = async (runtime, jobId) => {
  for await (const bytes of runtime.logs(jobId, 0, new AbortController().signal))
    console.log(JSON.stringify({ jobId, text: Buffer.from(bytes).toString() }))
}
`

/** Kills an agent with -9 once it has read a little of each of its ten jobs; answers what it had read. */
export async function runAgentUntilKilled(
  dir: string,
  program: string,
  options: object,
): Promise<Map<string, string>> {
  const source = path.join(dir, 'agent.ts')
  await writeFile(source, program)
  const bundle = await bundleProgram(source, path.join(dir, 'agent.mjs'))
  const argument = JSON.stringify({ ...options, jobs: JOBS, fence: FENCE })
  const agent = spawn(process.execPath, [bundle, argument], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exit = once(agent, 'exit')
  const read = new Map<string, string>()
  let rest = ''
  for await (const bytes of agent.stdout) {
    const lines = (rest + String(bytes)).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const { jobId, text } = JSON.parse(line) as { jobId: string; text: string }
      read.set(jobId, (read.get(jobId) ?? '') + text)
    }
    if (JOBS.every((jobId) => read.has(jobId))) agent.kill('SIGKILL')
  }
  await exit
  return read
}

/** All ten still run, go on once they are let, and are read to their end without gaps or repeats. */
export async function expectTakenOver(
  successor: Runtime,
  before: ReadonlyMap<string, string>,
  open: (jobId: string) => Promise<void>,
): Promise<void> {
  const found = await successor.list()
  expect(found.map(({ jobId, fence, state }) => ({ jobId, fence, state }))).toEqual(
    expect.arrayContaining(JOBS.map((jobId) => ({ jobId, fence: FENCE, state: 'running' }))),
  )
  const whole = Array.from({ length: 40 }, (_, index) => `line ${index + 1}\n`).join('')
  await Promise.all(
    JOBS.map(async (jobId) => {
      await open(jobId)
      let text = before.get(jobId) ?? ''
      for await (const bytes of successor.logs(jobId, text.length, never))
        text += Buffer.from(bytes).toString()
      expect(text).toBe(whole)
      expect(await successor.wait(jobId, never)).toMatchObject({ reason: 'exit', exitCode: 9 })
      await successor.remove(jobId)
    }),
  )
}
