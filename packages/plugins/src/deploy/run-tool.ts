import { spawn, type ChildProcess } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { basename, delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { sizeWords } from '@tenon/core'
import { canceled, PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { killAfterMs } from '../sdk/shell.ts'

export interface ToolRun {
  program: string
  args: string[]
  cwd: string
  /** Besides what every program of the job gets. */
  env?: Record<string, string>
  /** What it reads on stdin. */
  input?: string
  timeoutMs?: number
  /** Said line by line as it comes; stderr too. Without it nothing is said. */
  isLogged?: boolean
  /** False: what it says is not in the end as well, however much it is. */
  isKept?: boolean
  /** By what it is told to stop; it then has most of the job's grace. */
  stopWith?: NodeJS.Signals
}

export interface ToolEnd {
  code: number | null
  stdout: string
  stderr: string
}

export type ToolContext = Pick<OperationContext, 'baseEnv' | 'log' | 'signal' | 'manifest' | 'dial'>

const TIMEOUT_MS = 10 * 60_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

/** The first of the names that the job's PATH has. */
export async function findTool(context: ToolContext, ...names: string[]): Promise<string> {
  const folders = (context.baseEnv['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  for (const name of names) {
    for (const folder of folders) {
      const path = join(folder, name)
      const isThere = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      )
      if (isThere) return path
    }
  }
  const message = `This job has no ${names.join(' or ')}.`
  const remedy = "Install it where the install agent's jobs run: on its machine, or in its job image."
  throw new PluginError('tool_missing', message, remedy)
}

/** Runs a program to its end, in a process group of its own, so that all it started ends with it. */
export async function runTool(context: ToolContext, run: ToolRun): Promise<ToolEnd> {
  if (context.signal.aborted) throw canceled()
  const child = spawn(run.program, run.args, {
    cwd: run.cwd,
    env: { ...context.baseEnv, ...run.env },
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  // A program that does not read to the end closes the pipe; its exit code tells more than that.
  child.stdin.on('error', () => undefined)
  child.stdin.end(run.input ?? '')
  if (run.isLogged) {
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => line.trim() !== '' && context.log(line))
    }
  }
  return ended(context, run, child)
}

/** As `runTool`; a code that is not 0 is a failure that carries what the program complained about. */
export async function runToolOk(context: ToolContext, run: ToolRun): Promise<string> {
  const end = await runTool(context, run)
  if (end.code === 0) return end.stdout
  throw toolFailed(run, end)
}

export function toolFailed(run: Pick<ToolRun, 'program' | 'args'>, end: ToolEnd): PluginError {
  const message = `${basename(run.program)} ${run.args[0] ?? ''} ended with code ${end.code}: ${complaintOf(end)}`
  return new PluginError('tool_failed', message, "Read the job's log for all that it said.")
}

/** The end of what it said on stderr, in few words. */
export function complaintOf(end: ToolEnd): string {
  const lines = (end.stderr.trim() === '' ? end.stdout : end.stderr).split('\n')
  const said = lines.map((line) => line.replaceAll(/[│╷╵]/g, '').trim()).filter((line) => line !== '')
  const text = said.slice(-12).join(' ')
  return text === '' ? 'it said nothing.' : text.slice(-1200)
}

function ended(context: ToolContext, run: ToolRun, child: ChildProcess): Promise<ToolEnd> {
  const isKept = run.isKept ?? true
  const out = collector(isKept ? child.stdout : null, () => stopNow(tooMuch(run)))
  const err = collector(isKept ? child.stderr : null, () => stopNow(tooMuch(run)))
  let problem: PluginError | undefined
  let kill: NodeJS.Timeout | undefined
  const graceMs = killAfterMs(context.manifest.limits.graceSeconds)
  const stop = (why: PluginError) => {
    problem ??= why
    signalGroup(child.pid, run.stopWith ?? 'SIGTERM')
    kill ??= setTimeout(() => signalGroup(child.pid, 'SIGKILL'), graceMs)
  }
  const stopNow = (why: PluginError) => {
    problem ??= why
    signalGroup(child.pid, 'SIGKILL')
  }
  const onAbort = () => stop(canceled())
  const timer = setTimeout(() => stop(tooLong(run)), run.timeoutMs ?? TIMEOUT_MS)
  context.signal.addEventListener('abort', onAbort)
  return new Promise((resolve, reject) => {
    child.on('error', (cause) => (problem ??= cannotStart(run, cause)))
    child.on('close', (code) => {
      clearTimeout(timer)
      clearTimeout(kill)
      context.signal.removeEventListener('abort', onAbort)
      signalGroup(child.pid, 'SIGKILL')
      if (problem) reject(problem)
      else resolve({ code, stdout: out(), stderr: err() })
    })
  })
}

function collector(stream: NodeJS.ReadableStream | null, isTooMuch: () => void): () => string {
  const chunks: Buffer[] = []
  let size = 0
  stream?.on('data', (chunk: Buffer) => {
    size += chunk.byteLength
    if (size > MAX_OUTPUT_BYTES) isTooMuch()
    else chunks.push(chunk)
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // The group is empty already.
  }
}

function tooLong(run: ToolRun): PluginError {
  const seconds = Math.round((run.timeoutMs ?? TIMEOUT_MS) / 1000)
  const message = `${basename(run.program)} ${run.args[0] ?? ''} did not end within ${seconds} seconds.`
  return new PluginError('tool_failed', message, "Read the job's log for what it waited for.")
}

function tooMuch(run: ToolRun): PluginError {
  const message = `${basename(run.program)} wrote more than ${sizeWords(MAX_OUTPUT_BYTES)}.`
  return new PluginError('tool_failed', message, 'Make what it prints smaller.')
}

function cannotStart(run: ToolRun, cause: Error): PluginError {
  const message = `${run.program} cannot be started: ${cause.message}.`
  return new PluginError('tool_failed', message, "Check the program where the agent's jobs run.", cause)
}
