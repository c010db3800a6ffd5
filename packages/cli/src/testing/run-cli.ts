import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach } from 'vitest'
import { systemClock, type Io, type SignalName } from '../io.ts'
import { run } from '../run.ts'

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

export interface Setting {
  env?: Record<string, string>
  cwd?: string
  stdin?: string | Buffer
  /** Both outputs and the input are a terminal of this width. */
  tty?: number
  dist?: string
  io?: Partial<Io>
}

const folders: string[] = []

afterEach(async () => {
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true, force: true })))
})

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-cli-'))
  folders.push(folder)
  return folder
}

/** The program with a home of its own, as often as a test likes. */
export async function createHome() {
  const home = await temporaryFolder()
  const signals = new Map<SignalName, Set<() => void>>()
  return {
    home,
    configFile: join(home, '.config', 'tenon', 'config.json'),
    stateFile: join(home, '.local', 'state', 'tenon', 'known-servers.json'),
    /** Only answers true when somebody was listening. */
    interrupt: () => {
      const handlers = [...(signals.get('SIGINT') ?? [])]
      for (const handler of handlers) handler()
      return handlers.length > 0
    },
    async run(argv: string[], setting: Setting = {}): Promise<Ran> {
      const stdout = capture(setting.tty)
      const stderr = capture(setting.tty)
      const stdin = Object.assign(
        new PassThrough(),
        setting.tty ? { isTTY: true, setRawMode: () => undefined } : {},
      )
      if (setting.stdin !== undefined || !setting.tty) stdin.end(setting.stdin ?? '')
      const code = await run(argv, {
        stdin,
        stdout: stdout.stream,
        stderr: stderr.stream,
        env: { PATH: process.env['PATH'], ...setting.env },
        cwd: setting.cwd ?? home,
        fetch,
        clock: systemClock,
        host: {
          node: process.execPath,
          nodeVersion: process.versions.node,
          platform: 'linux',
          home,
          dist: setting.dist ?? join(home, 'dist'),
        },
        onSignal: (name, handler) => {
          const handlers = signals.get(name) ?? new Set()
          signals.set(name, handlers.add(handler))
          return () => handlers.delete(handler)
        },
        ...setting.io,
      })
      return { code, stdout: stdout.text(), stderr: stderr.text() }
    },
  }
}

export type Home = Awaited<ReturnType<typeof createHome>>

function capture(columns: number | undefined) {
  const stream = Object.assign(new PassThrough(), columns ? { isTTY: true, columns, rows: 50 } : {})
  const chunks: Buffer[] = []
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  return { stream, text: () => Buffer.concat(chunks).toString() }
}
