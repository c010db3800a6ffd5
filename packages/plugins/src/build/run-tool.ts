import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { basename, delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { sizeWords } from '@tenon/core'
import { canceled, PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'

export interface ToolRun {
  program: string
  /** How messages call it, where that is not the program and its first argument. */
  name?: string
  args: string[]
  cwd: string
  /** Besides what every program of the job gets. */
  env?: Record<string, string>
  timeoutMs?: number
  /** Said line by line as it comes; without it only what went wrong is said. */
  isLogged?: boolean
  /** Never shown: the text of what a log line is about. */
  hide?: (line: string) => string
}

export interface ToolEnd {
  code: number | null
  stdout: string
  /** The last lines of what it said on stderr. */
  complaint: string
}

type ToolContext = Pick<OperationContext, 'baseEnv' | 'log' | 'signal'>

const TIMEOUT_MS = 15 * 60_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024
const KEPT_LINES = 12

/** The first of the names that the job's PATH has. */
export async function findTool(context: ToolContext, ...names: string[]): Promise<string | undefined> {
  const folders = (context.baseEnv['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  for (const name of names) {
    for (const folder of folders) {
      const path = join(folder, name)
      if (
        await access(path, constants.X_OK).then(
          () => true,
          () => false,
        )
      )
        return path
    }
  }
  return undefined
}

export function toolMissing(what: string, names: string): PluginError {
  const remedy = `Install ${names} where the build agent's jobs run: on its machine, or in its job image.`
  return new PluginError('tool_missing', `${what} needs ${names}, and this job has none.`, remedy)
}

/** Like `endOf`, and a code that is not 0 is a failure that carries what the program complained about. */
export async function runTool(context: ToolContext, run: ToolRun): Promise<string> {
  const end = await endOf(context, run)
  if (end.code === 0) return end.stdout
  const said = end.complaint === '' ? '' : `: ${end.complaint}`
  const message = `${nameOf(run)} ended with code ${end.code}${said}.`
  throw new PluginError('tool_failed', message, "Read the job's log for all that it said.")
}

/** Runs a program to its end, in a process group of its own, so that all it started ends with it. */
export function endOf(context: ToolContext, run: ToolRun): Promise<ToolEnd> {
  const { signal } = context
  if (signal.aborted) throw canceled()
  return new Promise((resolve, reject) => {
    const child = spawn(run.program, run.args, {
      cwd: run.cwd,
      env: { ...context.baseEnv, ...run.env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const chunks: Buffer[] = []
    let size = 0
    const kept: string[] = []
    let problem: PluginError | undefined
    const end = (why: PluginError) => {
      problem ??= why
      killGroup(child.pid)
    }
    const stop = () => end(canceled())
    const timer = setTimeout(() => end(tooLong(run)), run.timeoutMs ?? TIMEOUT_MS)
    signal.addEventListener('abort', stop)
    const say = (line: string) => {
      const shown = run.hide?.(line) ?? line
      if (shown.trim() === '') return
      kept.push(shown.trim())
      if (kept.length > KEPT_LINES) kept.shift()
      if (run.isLogged) context.log(shown)
    }
    child.stdout.on('data', (chunk: Buffer) => {
      size += chunk.byteLength
      if (size > MAX_OUTPUT_BYTES) end(tooMuch(run))
      else chunks.push(chunk)
    })
    if (run.isLogged)
      createInterface({ input: child.stdout }).on('line', (line) => context.log(run.hide?.(line) ?? line))
    createInterface({ input: child.stderr }).on('line', say)
    child.on('error', (cause) => (problem ??= cannotStart(run, cause)))
    child.on('close', (code) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
      killGroup(child.pid)
      if (problem) reject(problem)
      else resolve({ code, stdout: Buffer.concat(chunks).toString('utf8'), complaint: kept.join(' | ') })
    })
  })
}

function nameOf({ name, program, args }: ToolRun): string {
  return name ?? `${basename(program)} ${args.find((arg) => !arg.startsWith('-')) ?? ''}`
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The group is empty already.
  }
}

function tooLong(run: ToolRun): PluginError {
  const seconds = Math.round((run.timeoutMs ?? TIMEOUT_MS) / 1000)
  const message = `${nameOf(run)} did not end within ${seconds} seconds.`
  return new PluginError(
    'tool_failed',
    message,
    'Check that what it waits for can be reached from the build agent.',
  )
}

function tooMuch(run: ToolRun): PluginError {
  const message = `${basename(run.program)} wrote more than ${sizeWords(MAX_OUTPUT_BYTES)}.`
  return new PluginError('tool_failed', message, 'Make what it prints smaller.')
}

function cannotStart(run: ToolRun, cause: Error): PluginError {
  const message = `${run.program} cannot be started: ${cause.message}.`
  return new PluginError('tool_failed', message, 'Check the program on the build agent.', cause)
}
