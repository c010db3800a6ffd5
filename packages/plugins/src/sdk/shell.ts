import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { basename } from 'node:path'
import { canceled, PluginError } from './errors.ts'
import type { OperationContext, OperationResult } from './plugin.ts'
import { prepareShellFolder } from './shell-files.ts'
import { readShellOutputs, readShellResult } from './shell-results.ts'

/** Runs a script as an operation: the job API becomes files before it, its `out` folder the result after it. */
export async function runShell(
  context: OperationContext,
  script: { path: string; cwd: string; env?: Record<string, string> },
): Promise<OperationResult> {
  const folder = await prepareShellFolder(context)
  const end = await runScript({
    path: script.path,
    cwd: script.cwd,
    env: { ...folder.env, ...script.env },
    signal: context.signal,
    graceMs: killAfterMs(context.manifest.limits.graceSeconds),
  })
  if (context.signal.aborted) throw canceled()
  const name = basename(script.path)
  if (end.code !== 0) {
    const how = end.code === null ? `was ended by ${end.signal}` : `ended with code ${end.code}`
    const said = await readShellResult(folder.out).catch(() => ({}) as { message?: string })
    const message = said.message === undefined ? `${name} ${how}` : `${name} ${how}: ${said.message}`
    return { ok: false, message, data: { exitCode: end.code } }
  }
  const result = await readShellResult(folder.out)
  const outputs = await readShellOutputs(folder.out)
  return {
    ok: true,
    message: result.message ?? `${name} succeeded`,
    data: result.data ?? {},
    ...(outputs === undefined ? {} : { outputs }),
  }
}

/** A script gets most of the job's own grace; it must be gone before the job itself is killed. */
export function killAfterMs(graceSeconds: number): number {
  return Math.floor(graceSeconds * 750)
}

interface ScriptRun {
  path: string
  cwd: string
  env: Record<string, string>
  signal: AbortSignal
  graceMs: number
}

interface ScriptEnd {
  code: number | null
  signal: NodeJS.Signals | null
}

/** In a process group of its own, so that all it started ends with it. */
async function runScript(run: ScriptRun): Promise<ScriptEnd> {
  if (run.signal.aborted) throw canceled()
  const [program, ...args] = await commandOf(run.path)
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: run.cwd,
      env: run.env,
      detached: true,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    let kill: NodeJS.Timeout | undefined
    const stop = () => {
      signalGroup(child.pid, 'SIGTERM')
      kill = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), run.graceMs)
    }
    const settle = () => {
      run.signal.removeEventListener('abort', stop)
      clearTimeout(kill)
      signalGroup(child.pid, 'SIGKILL')
    }
    run.signal.addEventListener('abort', stop)
    child.on('error', (cause) => {
      settle()
      const remedy = 'Check its first line and that its interpreter is there.'
      reject(
        new PluginError(
          'script_failed',
          `${basename(run.path)} cannot be started: ${cause.message}.`,
          remedy,
          cause,
        ),
      )
    })
    child.on('exit', (code, signal) => {
      settle()
      resolve({ code, signal })
    })
  })
}

/** With its own first line when it is executable, else as a script of the system's shell. */
async function commandOf(path: string): Promise<[string, ...string[]]> {
  try {
    await access(path, constants.X_OK)
    return [path]
  } catch {
    return ['/bin/sh', path]
  }
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // The group is empty already.
  }
}
