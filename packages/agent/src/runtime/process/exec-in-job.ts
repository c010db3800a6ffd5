import { spawn } from 'node:child_process'
import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { constants } from 'node:os'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { pause } from '../../ground/pause.ts'
import { createExecOutput } from '../exec-output.ts'
import { readJson } from '../job-files.ts'
import { ExecError } from '../runtime.ts'
import type { ExecOptions, JobExec } from '../runtime.ts'
import { firstProgram } from './host.ts'
import { readRecord, readSession } from './job-folder.ts'
import type { JobFolder, JobRecord } from './job-folder.ts'

/** Arguments: number of cgroup folders, those folders, the command. */
const JOIN = `
count=$1; shift
while [ "$count" -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 126; shift; count=$((count - 1)); done
exec "$@"
`
const ENTER = 'cd "$HOME" || exit 1; exec "$@"'

/** A command beside a running job: in its cgroup and, where it is confined, behind the same walls without capabilities. */
export async function execInJob(
  folder: JobFolder,
  command: string[],
  options: ExecOptions,
): Promise<JobExec> {
  const record = await readRecord(folder)
  const program = record && (await findProgram(folder, record, options.signal))
  if (record === undefined || program === undefined) throw new ExecError('no_job', 'No such job runs.')
  const { pid, env } = program
  const enter = ['/bin/sh', '-c', ENTER, 'tenon-exec', ...command]
  const inside = record.confined ? [...(await walls(pid)), ...enter] : enter
  const whole = options.tty ? await onTerminal(inside) : inside
  const join = ['-c', JOIN, 'tenon-exec', String(record.cgroup.length), ...record.cgroup, ...whole]
  const child = spawn('/bin/sh', join, { env, detached: true, stdio: 'pipe', cwd: '/' })
  return connect(child, options)
}

/** Whom it started, the launcher writes down a moment after that one has said that it is ready. */
const WRITTEN_WITHIN_MS = 2000
const LOOK_MS = 10

async function findProgram(folder: JobFolder, record: JobRecord, signal: AbortSignal) {
  for (let waited = 0; ; waited += LOOK_MS) {
    const pid = await programPid(folder, record)
    const env = pid === undefined ? undefined : environmentOf(pid)
    if (pid !== undefined && env !== undefined) return { pid, env }
    if (waited >= WRITTEN_WITHIN_MS || signal.aborted) return undefined
    await pause(LOOK_MS, signal)
  }
}

const infoSchema = z.object({ 'child-pid': z.number().int().positive() })

/** The starter: the first process inside the walls, or of the job's session where there are none. */
async function programPid(folder: JobFolder, record: JobRecord): Promise<number | undefined> {
  if (!record.confined) return readSession(folder)
  return (await readJson(path.join(folder.run, 'info'), infoSchema))?.['child-pid']
}

function environmentOf(pid: number): Record<string, string> | undefined {
  try {
    const words = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
    return Object.fromEntries(words.filter((word) => word !== '').map((word) => word.split(/=(.*)/s, 2)))
  } catch {
    return undefined
  }
}

/** Whoever enters a user namespace has every capability there; the job has none, so neither has the command. */
async function walls(pid: number): Promise<string[]> {
  const nsenter = await firstProgram(['/usr/bin/nsenter', '/bin/nsenter'])
  const setpriv = await firstProgram(['/usr/bin/setpriv', '/bin/setpriv'])
  if (nsenter === undefined || setpriv === undefined) {
    throw new ExecError(
      'unsupported',
      'A confined job can only be entered with nsenter and setpriv. Install them: apt-get install util-linux.',
    )
  }
  const drop = ['--no-new-privs', '--inh-caps=-all', '--bounding-set=-all']
  return [nsenter, '--target', String(pid), '--all', '--preserve-credentials', '--', setpriv, ...drop]
}

async function onTerminal(command: string[]): Promise<string[]> {
  const script = await firstProgram(['/usr/bin/script', '/bin/script'])
  if (script === undefined) {
    throw new ExecError(
      'no_terminal',
      'This machine has no program that makes a terminal. Install it: apt-get install bsdutils.',
    )
  }
  const line = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
  return [script, '--quiet', '--flush', '--return', '--command', line, '/dev/null']
}

function connect(child: ChildProcessWithoutNullStreams, { stdin, signal }: ExecOptions): JobExec {
  const output = createExecOutput((isFull) => {
    for (const stream of [child.stdout, child.stderr])
      if (isFull) stream.pause()
      else stream.resume()
  })
  child.stdout.on('data', (bytes: Buffer) => output.push({ stream: 'stdout', bytes }))
  child.stderr.on('data', (bytes: Buffer) => output.push({ stream: 'stderr', bytes }))
  child.stdin.on('error', () => undefined)
  const abort = () => killGroup(child)
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  const exitCode = new Promise<number>((resolve, reject) => {
    child.on('error', (cause) => reject(new ExecError('broken', cause.message, { cause })))
    child.on('close', (code, by) => {
      signal.removeEventListener('abort', abort)
      output.end()
      resolve(code ?? 128 + (by === null ? 0 : constants.signals[by]))
    })
  })
  exitCode.catch(() => output.end())
  if (stdin === undefined) child.stdin.end()
  else void feed(child, stdin)
  return { output, exitCode }
}

async function feed(child: ChildProcessWithoutNullStreams, stdin: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const bytes of stdin) child.stdin.write(bytes)
  } finally {
    child.stdin.end()
  }
}

/** The command and what it started, also behind the walls: a process group is one in every namespace. */
function killGroup(child: ChildProcessWithoutNullStreams): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  } catch {
    child.kill('SIGKILL')
  }
}
