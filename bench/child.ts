import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'

/** Functions of another process, called over Node's own IPC. Each takes one value and answers with one. */
export type Handlers = { [command: string]: (argument: never) => unknown }
type Call = { id: number; command: string; argument: unknown }
type Answer = { id: number; value?: unknown; error?: string }

export interface Child<H extends Handlers> {
  pid: number
  call<K extends keyof H & string>(
    command: K,
    ...argument: Parameters<H[K]>
  ): Promise<Awaited<ReturnType<H[K]>>>
  kill(signal: NodeJS.Signals): Promise<void>
  /** Ends the channel, which is how a program here is told to stop. */
  stop(): Promise<void>
}

const STOP_MS = 30_000

export function startChild<H extends Handlers>(options: {
  bundle: string
  logFile: string
  env?: Record<string, string>
  execArgv?: string[]
}): Child<H> {
  const log = openSync(options.logFile, 'a', 0o600)
  const child = fork(options.bundle, [], {
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/', ...options.env },
    execArgv: options.execArgv ?? [],
    serialization: 'advanced',
    stdio: ['ignore', log, log, 'ipc'],
  })
  closeSync(log)
  return handle<H>(child, options)
}

function handle<H extends Handlers>(
  child: ChildProcess,
  { bundle, logFile }: { bundle: string; logFile: string },
): Child<H> {
  const waiting = new Map<number, (answer: Answer) => void>()
  const exited = once(child, 'exit').then(([code, signal]: unknown[]) => {
    for (const [id, answer] of waiting)
      answer({ id, error: `${bundle} ended (${String(signal ?? code)}); see ${logFile}` })
    waiting.clear()
  })
  child.on('message', (answer) => {
    const { id } = answer as Answer
    waiting.get(id)?.(answer as Answer)
    waiting.delete(id)
  })
  const isRunning = () => child.exitCode === null && child.signalCode === null
  let last = 0
  return {
    pid: child.pid ?? -1,
    async call(command, ...[argument]) {
      const id = ++last
      const answer = await new Promise<Answer>((resolve) => {
        if (!child.connected) return resolve({ id, error: `${bundle} is gone; see ${logFile}` })
        waiting.set(id, resolve)
        child.send({ id, command, argument } satisfies Call)
      })
      if (answer.error !== undefined) throw new Error(`${command}: ${answer.error}`)
      return answer.value as never
    },
    async kill(signal) {
      if (isRunning()) child.kill(signal)
      await exited
    },
    async stop() {
      if (!isRunning()) return
      if (child.connected) child.disconnect()
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      await exited
      clearTimeout(timer)
    },
  }
}

/** The other side. When whoever started this program goes away, so does the program. */
export function serveCommands(handlers: Handlers, stop: () => Promise<void>): void {
  process.on('message', (message) => {
    const { id, command, argument } = message as Call
    void Promise.resolve()
      .then(() => handlers[command]?.(argument as never))
      .then(
        (value) => process.send?.({ id, value } satisfies Answer),
        (error: unknown) =>
          process.send?.({
            id,
            error: error instanceof Error ? error.message : String(error),
          } satisfies Answer),
      )
  })
  process.on('disconnect', () => void stop().finally(() => process.exit(0)))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined)
}

/** CLOCK_MONOTONIC in milliseconds: the same clock in every process of one machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
