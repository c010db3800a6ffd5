import type { CallOutput, Client } from '@tenon/protocol'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { KeptDying, keepRunning, type KeepRunning } from './keep-running.ts'
import { stopLeftJobs } from './left-jobs.ts'
import { openRunRecord, type RunRecord } from './orphans.ts'
import { ProgramFailed, type Program } from './program.ts'
import { readdressInstalls } from './readdress.ts'
import { SettingError } from './settings.ts'
import { createWorld, type ServerHandle } from './world.ts'

export interface DemoOptions {
  root: string
  dist: string
  dir: string
  port: number
  /** What a person set for the server. */
  serverEnv: Record<string, string>
  print: (line: string) => void
  onSignal: (stop: () => void) => void
}

const APP = 'hello'
const INSTALL = 'first-customer'

/** `npm start`: the main job, done with the same commands that a person would type, each shown. */
export async function startDemo(options: DemoOptions): Promise<number> {
  const { print, dir } = options
  const programs: Program[] = []
  const kept = keepRunning(print, Date.now)
  let asked = false
  const stopped = new Promise<void>((resolve) =>
    options.onSignal(() => {
      if (!asked) print('\nStopping everything that was started here…')
      asked = true
      resolve()
    }),
  )
  try {
    const ready = bringUp(options, programs, kept).then(() => stopped)
    await Promise.race([ready, stopped, kept.failed])
    return 0
  } catch (error) {
    if (!asked) explain(error, options)
    return asked ? 0 : 1
  } finally {
    kept.stop()
    for (const program of programs.toReversed()) await program.stop()
    const jobs = programs.length > 0 ? await stopLeftJobs(dir) : 0
    if (jobs > 0) print(`Stopped ${jobs} running ${jobs === 1 ? 'job' : 'jobs'}.`)
    print(
      asked
        ? `Stopped. Your data is in ${shown(dir)}; \`npm start\` goes on from there.`
        : 'Nothing that this start began is left running.',
    )
  }
}

async function bringUp(options: DemoOptions, programs: Program[], kept: KeepRunning): Promise<void> {
  const { dir, dist, print } = options
  const record = openFolder(dir)
  const orphans = await record.endOrphans()
  if (orphans.length > 0) print(`Ended what an earlier start had left: ${orphans.join(', ')}`)
  const world = createWorld({
    dir,
    dist,
    onStart: (program) => {
      programs.push(program)
      record.remember(program)
    },
  })
  const began = Date.now()
  print('Starting the vendor’s side: PostgreSQL, server, build agent, setup agent…')
  const startServer = (port: number) => world.startServer({ port, env: options.serverEnv })
  const server = await startServer(options.port)
  const port = Number(new URL(server.url).port)
  kept.watch(server.program, async () => (await startServer(port)).program)
  writeFileSync(
    join(dir, 'cli.json'),
    JSON.stringify({ url: server.url, tokenFile: join('server', 'owner.token') }),
    { mode: 0o600 },
  )
  print(`  the server is ready at ${server.url} after ${((Date.now() - began) / 1000).toFixed(1)} s`)
  const moved = readdressInstalls(join(dir, 'customer'), server.url)
  if (moved > 0)
    print(`  ${moved === 1 ? 'the install goes' : `${moved} installs go`} with it to this address`)
  const host = await world.startLocalHost('customer')
  kept.watch(host.program, async () => (await world.startLocalHost('customer')).program)
  const lent = { TENON_LENT_PATHS: host.lent.join(':') }
  for (const agent of [
    { name: 'build-agent', role: 'build' as const },
    { name: 'setup-agent', role: 'setup' as const, env: lent },
  ])
    kept.watch(await world.startAgent(server, agent), () => world.startAgent(server, agent))
  await ship(options, server, host.dir)
  await summary(options, server)
}

/** The data folder, for this process alone. */
function openFolder(dir: string): RunRecord {
  let record: RunRecord
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    record = openRunRecord(join(dir, 'run'))
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? (error as Error).message
    throw new SettingError(
      `the data folder ${dir} cannot be used (${why})`,
      'make it a folder that you can write, or name another with TENON_DIR.',
    )
  }
  const other = record.claim()
  if (other === undefined) return record
  throw new SettingError(
    `another \`npm start\` (process ${other}) uses ${shown(dir)}`,
    'use that one, or stop it with Ctrl-C first; for a second one set TENON_DIR and TENON_PORT.',
  )
}

/** Sync, build, install: only what is not there yet. */
async function ship(options: DemoOptions, server: ServerHandle, hostDir: string): Promise<void> {
  const example = relative(process.cwd(), join(options.root, 'examples/hello')) || '.'
  const tenon = (...args: string[]) => runCli(options, server, args)
  const { client } = server
  const app = await find(() => client.call('apps.get', { params: { ref: APP } }))
  const install = await find(() => client.call('installs.get', { params: { ref: INSTALL } }))
  if (!app || app.components.some((c) => c.artifact === null)) await tenon('builds', 'create', example)
  if (!install) {
    options.print('')
    await tenon('installs', 'create', INSTALL, '--app', APP, '--sandbox', 'local', '--host', hostDir)
  } else if (install.status !== 'active') {
    options.print(
      `\nThe install ${INSTALL} is ${install.status}: \`npx tenon installs show ${INSTALL}\` and \`npx tenon runs list\` say why.`,
    )
  } else {
    await waitUntilAnswers(client)
  }
}

async function summary(options: DemoOptions, server: ServerHandle): Promise<void> {
  const { print } = options
  const install = await find(() => server.client.call('installs.get', { params: { ref: INSTALL } }))
  const url = urlOf(install)
  print('')
  print('Tenon is up.')
  if (url) print(`  The example, inside the customer’s install:  ${url}`)
  print(`  The API and its reference:                   ${server.url}/docs/`)
  print('')
  print('Try next, in another terminal:')
  if (options.dir !== join(options.root, '.tenon')) print(`  export TENON_DIR=${options.dir}`)
  print(`  npx tenon installs show ${INSTALL}`)
  print(`  npx tenon deploy ${INSTALL}`)
  print('  npx tenon audit verify --all')
  print('')
  print(`Data and logs are in ${shown(options.dir)}. Ctrl-C stops everything that was started here.`)
}

type Install = CallOutput<'installs.get'>

function urlOf(install: Install | undefined): string | undefined {
  const output = install?.components.find((c) => c.name === 'web')?.outputs['url']?.value
  return typeof output === 'string' ? output : undefined
}

/** After a restart the customer's side comes back by itself; the address is shown once it answers. */
async function waitUntilAnswers(client: Client): Promise<void> {
  const url = urlOf(await client.call('installs.get', { params: { ref: INSTALL } }))
  const deadline = Date.now() + 20_000
  while (url && Date.now() < deadline) {
    const answer = await fetch(url).catch(() => undefined)
    if (answer?.ok) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function find<T>(get: () => Promise<T>): Promise<T | undefined> {
  try {
    return await get()
  } catch (error) {
    if ((error as { code?: string }).code === 'not_found') return undefined
    throw error
  }
}

class CommandFailed extends Error {}

async function runCli(options: DemoOptions, server: ServerHandle, args: string[]): Promise<void> {
  options.print(`\n$ tenon ${args.join(' ')}`)
  const child = spawn(process.execPath, [join(options.dist, 'cli.mjs'), ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
    cwd: process.cwd(),
    env: {
      ...process.env,
      TENON_URL: server.url,
      TENON_TOKEN_FILE: join(options.dir, 'server', 'owner.token'),
    },
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new CommandFailed(`\`tenon ${args.join(' ')}\` ended with ${code}`)
}

function explain(error: unknown, options: DemoOptions): void {
  if (error instanceof SettingError) {
    options.print(`\nerror: ${error.message}\nnext: ${error.next}`)
  } else if (error instanceof ProgramFailed) {
    options.print(`\n${error.words}`)
    options.print(`The whole log: ${shown(join(options.dir, 'log', `${error.program}.log`))}`)
  } else if (error instanceof KeptDying) {
    options.print(`\nerror: ${error.message}`)
    options.print(`next: its log says why: ${shown(join(options.dir, 'log', `${error.program}.log`))}`)
  } else {
    options.print(`\nerror: ${error instanceof Error ? error.message : String(error)}`)
    options.print(
      `next: see the logs in ${shown(join(options.dir, 'log'))}; to begin anew, remove ${shown(options.dir)}.`,
    )
  }
}

function shown(path: string): string {
  const short = relative(process.cwd(), path)
  return short.startsWith('..') ? path : short
}
