import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { build } from 'esbuild'
import { pino } from 'pino'
import { afterAll, describe, expect, it } from 'vitest'
import { createProcessRuntime } from './process-runtime.ts'

const dir = await mkdtemp(path.join(tmpdir(), 'tenon-death-'))
const never = new AbortController().signal
afterAll(() => rm(dir, { recursive: true, force: true }))

const AGENT = `
import { createProcessRuntime } from './process-runtime.ts'
const runtime = createProcessRuntime({ dir: process.argv[2], log: console, useCgroups: false })
const script = 'i=0; while [ $i -lt 50 ]; do i=$((i + 1)); echo "line $i"; sleep 0.1; done; exit 9'
await runtime.start({
  jobId: 'survivor', fence: 8, command: ['/bin/sh', '-c', script], env: { PATH: '/usr/bin:/bin' }, files: {},
  mounts: [], network: 'egress',
  limits: { memoryBytes: 256 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 },
})
for await (const bytes of runtime.logs('survivor', 0, new AbortController().signal)) {
  process.stdout.write(bytes)
}
`

describe('an agent killed while its job runs', { timeout: 90_000 }, () => {
  it('leaves the job to its successor, which reads on where the first one stopped', async () => {
    const bundle = path.join(dir, 'agent.mjs')
    await build({
      stdin: { contents: AGENT, resolveDir: import.meta.dirname, loader: 'ts' },
      outfile: bundle,
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'error',
    })
    const jobs = path.join(dir, 'jobs')
    const agent = spawn(process.execPath, [bundle, jobs], { stdio: ['ignore', 'pipe', 'inherit'] })
    let before = ''
    for await (const bytes of agent.stdout) {
      before += String(bytes)
      if (before.length > 50) agent.kill('SIGKILL')
    }
    if (agent.signalCode === null) await once(agent, 'exit')

    const successor = createProcessRuntime({ dir: jobs, log: pino({ level: 'silent' }), useCgroups: false })
    expect(await successor.attach('survivor')).toMatchObject({ fence: 8, state: 'running' })
    let after = ''
    for await (const bytes of successor.logs('survivor', before.length, never)) {
      after += Buffer.from(bytes).toString()
    }
    const lines = Array.from({ length: 50 }, (_, index) => `line ${index + 1}\n`)
    expect(before + after).toBe(lines.join(''))
    expect(await successor.wait('survivor', never)).toMatchObject({ reason: 'exit', exitCode: 9 })
    await successor.remove('survivor')
    expect(await successor.list()).toEqual([])
  })
})
