import { expect, it } from 'vitest'
import type { Suite } from './contract.testing.ts'
import { ExecError } from './runtime.ts'
import type { JobExec, JobHandle } from './runtime.ts'

const never = new AbortController().signal
const decoder = new TextDecoder()

/** Part of the contract suite: commands beside the program of a running job. */
export function describeExec(suite: Suite, readLog: (jobId: string) => Promise<string>): void {
  it.each(['unknown', '../outside', ''])('runs no command in the job %j', async (jobId) => {
    const options = { tty: false, signal: never }
    const failure = await suite.runtime.exec(jobId, ['true'], options).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ExecError)
    expect(failure).toMatchObject({ code: 'no_job' })
  })

  it('runs a command beside the program, in its folder, and leaves the job as it was', async ({ skip }) => {
    const { runtime } = suite
    const { jobId, folder } = await startHolding(suite, skip)
    const script = 'cat note; pwd; echo wrong >&2; grep CapEff /proc/self/status; exit 7'
    const done = await collect(runtime.exec(jobId, shell(script), { tty: false, signal: never }))
    const rights = suite.harness.isConfined ? '0{16}' : '[0-9a-f]{16}'
    expect(done.stdout).toMatch(new RegExp(`^from the agent\n${folder}\nCapEff:\t${rights}\n$`))
    expect(done).toMatchObject({ stderr: 'wrong\n', code: 7 })
    expect(await runtime.attach(jobId)).toMatchObject({ state: 'running' })
    await runtime.stop(jobId, 1, 'canceled')
    expect(await readLog(jobId)).not.toContain('from the agent')
    const late = runtime.exec(jobId, ['true'], { tty: false, signal: never })
    await expect(late).rejects.toMatchObject({ code: 'no_job' })
  })

  describeStreams(suite)
}

function describeStreams(suite: Suite): void {
  it('hands a command what is typed', async ({ skip }) => {
    const { runtime } = suite
    const { jobId } = await startHolding(suite, skip)
    const stdin = (async function* () {
      yield Buffer.from('first\n')
      yield Buffer.from('second\n')
    })()
    const script = 'read -r a; read -r b; echo "$b after $a"'
    const done = await collect(runtime.exec(jobId, shell(script), { tty: false, stdin, signal: never }))
    expect(done).toEqual({ stdout: 'second after first\n', stderr: '', code: 0 })
  })

  it('gives a command a terminal', async ({ skip }) => {
    const { runtime } = suite
    const { jobId } = await startHolding(suite, skip)
    const script = 'test -t 0 && test -t 1 && test -t 2 && echo "a terminal" >&2; exit 3'
    const done = await collect(runtime.exec(jobId, shell(script), { tty: true, signal: never }))
    expect(done).toEqual({ stdout: 'a terminal\r\n', stderr: '', code: 3 })
  })

  it('carries much output whole, and lets go of a command on abort', async ({ skip }) => {
    const { runtime, harness } = suite
    const { jobId } = await startHolding(suite, skip)
    const script = 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); echo "line $i"; done'
    const done = await collect(runtime.exec(jobId, shell(script), { tty: false, signal: never }))
    const lines = Array.from({ length: 20_000 }, (_, index) => `line ${index + 1}\n`)
    expect(done.stdout).toBe(lines.join(''))
    const abort = new AbortController()
    const endless = await runtime.exec(jobId, shell('echo up; exec sleep 1000'), {
      tty: false,
      signal: abort.signal,
    })
    for await (const { bytes } of endless.output) if (decoder.decode(bytes) === 'up\n') abort.abort()
    await endless.exitCode.catch(() => undefined)
    expect(await runtime.attach(jobId)).toMatchObject({ state: 'running' })
    await runtime.remove(jobId)
    expect(await harness.traces(jobId)).toEqual([])
  })
}

function shell(script: string): string[] {
  return ['/bin/sh', '-c', script]
}

async function startHolding(
  { runtime, harness, spec }: Suite,
  skip: (why: string) => never,
): Promise<JobHandle> {
  if (harness.programs.printEnv === undefined) return skip('no real processes')
  return runtime.start(spec(harness.programs.hold(), { files: { note: 'from the agent\n' } }))
}

async function collect(
  starting: Promise<JobExec>,
): Promise<{ stdout: string; stderr: string; code: number }> {
  const { output, exitCode } = await starting
  const texts = { stdout: '', stderr: '' }
  for await (const { stream, bytes } of output) texts[stream] += decoder.decode(bytes)
  return { ...texts, code: await exitCode }
}
