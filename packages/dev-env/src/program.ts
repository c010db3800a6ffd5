import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'

/** One of our programs as a process of its own session, so that a Ctrl-C in the terminal reaches only the one who started it. */
export interface Program {
  name: string
  pid: number
  /** Resolves with the exit code, or -1 when a signal ended it. */
  exited: Promise<number>
  /** The first line it prints on stdout; rejects with its last words when it ends before that. */
  firstLine(): Promise<string>
  kill(signal: NodeJS.Signals): void
  /** SIGTERM, and SIGKILL when that is not enough. */
  stop(graceMs?: number): Promise<void>
}

export function startProgram(options: {
  name: string
  bundle: string
  args?: string[]
  env: Record<string, string>
  logFile: string
  cwd?: string
  /** A program that becomes ours after it changed its surroundings, such as nsenter with its arguments. */
  within?: readonly string[] | undefined
}): Program {
  const log = openSync(options.logFile, 'a', 0o600)
  const [program, ...before] = [...(options.within ?? []), process.execPath]
  const child = spawn(program, [...before, options.bundle, ...(options.args ?? [])], {
    env: options.env,
    cwd: options.cwd,
    detached: true,
    stdio: ['ignore', 'pipe', log],
  })
  closeSync(log)
  const exited = once(child, 'exit').then(([code]) => (typeof code === 'number' ? code : -1))
  const firstLine = readFirstLine(child)
  firstLine.catch(() => undefined)
  const isRunning = () => child.exitCode === null && child.signalCode === null
  return {
    name: options.name,
    pid: child.pid ?? -1,
    exited,
    async firstLine() {
      const line = await Promise.race([
        firstLine,
        exited.then((code) => new Error(`${options.name} ended with ${code}`)),
      ])
      if (line instanceof Error) throw new ProgramFailed(options.name, lastWords(options.logFile))
      return line
    },
    kill: (signal) => void (isRunning() && child.kill(signal)),
    async stop(graceMs = 15_000) {
      if (!isRunning()) return
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), graceMs)
      await exited
      clearTimeout(timer)
    },
  }
}

/** Carries what the program itself said, which is what a person needs to read. */
export class ProgramFailed extends Error {
  readonly program: string
  readonly words: string

  constructor(program: string, words: string) {
    super(`${program} could not start: ${words}`)
    this.name = 'ProgramFailed'
    this.program = program
    this.words = words
  }
}

async function readFirstLine(child: ChildProcess): Promise<string> {
  let text = ''
  for await (const chunk of child.stdout!.setEncoding('utf8')) {
    text += chunk
    const end = text.indexOf('\n')
    if (end < 0) continue
    child.stdout!.resume()
    return text.slice(0, end)
  }
  return new Promise(() => undefined)
}

function lastWords(file: string): string {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
  const at = lines.findLastIndex((line) => line.startsWith('error:'))
  return (at >= 0 ? lines.slice(at) : lines.slice(-3)).join('\n')
}
