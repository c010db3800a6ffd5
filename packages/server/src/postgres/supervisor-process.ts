import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'

/** What a supervisor in a process of its own says first. */
export type SupervisorReport =
  | { url: string; pid: number; adopted: boolean }
  | { code: string; message: string }

const entry = `
import { startEmbeddedPostgres } from './embedded-postgres.ts'
const log = { info() {}, warn() {} }
const say = (report) => process.stdout.write(JSON.stringify(report) + '\\n')
startEmbeddedPostgres({ ...JSON.parse(process.argv[2]), log }).then(
  (postgres) => {
    const alive = setInterval(() => {}, 1000)
    process.once('SIGTERM', () => postgres.stop().finally(() => clearInterval(alive)))
    say({ url: postgres.url, pid: postgres.pid(), adopted: postgres.adopted })
  },
  (error) => say({ code: error.code ?? 'none', message: error.message }),
)
`

export type SupervisorProgram = {
  start(options: { dataDir: string }): SupervisorProcess
  remove(): void
}

export type SupervisorProcess = {
  child: ChildProcess
  report: Promise<SupervisorReport>
  ended: Promise<void>
}

/** Tests that kill a supervisor need it in a real process; this makes one that plain Node can run. */
export async function buildSupervisorProgram(): Promise<SupervisorProgram> {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-supervisor-'))
  const program = join(folder, 'supervisor.cjs')
  const here = join(import.meta.dirname, 'binaries.ts')
  await build({
    stdin: { contents: entry, resolveDir: import.meta.dirname },
    outfile: program,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    external: ['pg-native'],
    define: { 'import.meta.url': JSON.stringify(pathToFileURL(here).href) },
  })
  return {
    start: (options) => startSupervisor(program, options),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

function startSupervisor(program: string, options: object): SupervisorProcess {
  const child = spawn(process.execPath, [program, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<void>((settle) => child.once('exit', () => settle()))
  const report = new Promise<SupervisorReport>((settle, reject) => {
    createInterface({ input: child.stdout }).once('line', (line) =>
      settle(JSON.parse(line) as SupervisorReport),
    )
    void ended.then(() => reject(new Error('the supervisor ended without a word')))
  })
  report.catch(() => {})
  return { child, report, ended }
}
