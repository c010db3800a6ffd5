import { serveGit, type GitRepository } from '@tenon/plugins/testing/git-server'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startProgram, type Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { until } from './until.ts'
import { createWorld, type ServerHandle, type World } from './world.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL'] ?? ''
const run = promisify(execFile)

const dir = mkdtempSync(join(tmpdir(), 'tenon-built-action-'))
const started: Program[] = []
const database = `built_action_${randomBytes(6).toString('hex')}`
const databaseUrl = Object.assign(new URL(clusterUrl), { pathname: database }).href
let removePrograms: () => void = () => undefined
let dist: string
let world: World
let server: ServerHandle
let git: GitRepository

const query = async (url: string, statement: string) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

beforeAll(async () => {
  ;({ dist, remove: removePrograms } = await buildPrograms(root))
  await query(clusterUrl, `create database ${database}`)
  world = createWorld({ dir, dist, onStart: (program) => started.push(program) })
  server = await world.startServer({
    env: {
      DATABASE_URL: databaseUrl,
      TENON_HEARTBEAT_SECONDS: '0.5',
      TENON_RATE_LIMIT_PER_MINUTE: '1000000',
    },
  })
  git = await serveGit(world.folder('git'))
}, 240_000)
afterAll(async () => {
  await Promise.all(started.toReversed().map((program) => program.stop()))
  await git?.close()
  await query(clusterUrl, `drop database if exists ${database} with (force)`)
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
  removePrograms()
}, 60_000)

function write(folder: string, files: Record<string, string>): string {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, folder, path)), { recursive: true })
    writeFileSync(join(dir, folder, path), content)
    if (path.endsWith('.sh')) chmodSync(join(dir, folder, path), 0o755)
  }
  return join(dir, folder)
}

/** As a person runs it; it throws with all that it printed when it does not end with 0. */
async function tenon(...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], TENON_URL: server.url, TENON_TOKEN: server.token, HOME: dir }
  const { stdout, stderr } = await run(process.execPath, [join(dist, 'cli.mjs'), ...args], { env })
  return stdout + stderr
}

async function startInstall(): Promise<void> {
  const keyFile = join(world.folder('keys'), 'registry.key')
  writeFileSync(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  const registry = startProgram({
    name: 'registry',
    bundle: join(dist, 'registry.mjs'),
    args: ['--dir', world.folder('registry'), '--port', '0', '--key-file', keyFile],
    env: { PATH: process.env['PATH'] ?? '' },
    logFile: join(world.folder('log'), 'registry.log'),
  })
  started.push(registry)
  const url = (await registry.firstLine()).replace('registry listens at ', '')
  await tenon('installs', 'create', 'acme', '--app', 'shop', '--detach')
  const env = { TENON_REGISTRY_URL: url, TENON_REGISTRY_KEY_FILE: keyFile }
  await world.startAgent(server, { name: 'agent', role: { install: 'acme' }, runtime: 'process', env })
}

async function endOf(find: { kind: string; createdBy?: string }) {
  return until(
    `the end of a run: ${JSON.stringify(find)}`,
    async () => {
      const { items } = await server.client.call('runs.list', { query: { install: 'acme' } })
      const found = items.find(
        (each) =>
          each.kind === find.kind && (find.createdBy === undefined || each.createdBy === find.createdBy),
      )
      return found?.finishedAt ? found : undefined
    },
    120,
  )
}

const DUMP = `#!/bin/sh
set -e
. ./lib.sh
say "dumping $1 of $TENON_INSTALL_NAME"
echo fresh > state-of-the-run
printf '{"table": "%s"}' "$1" > "$TENON_OUTPUTS"
`

it('an action of a repository is built, synced and run by hand and by schedule, the repository being gone', async () => {
  const ops = write('ops', { 'scripts/dump.sh': DUMP, 'scripts/lib.sh': 'say() { echo "said: $*"; }\n' })
  const commit = await git.commit(ops)
  const app = write('app', {
    'metadata.toml': 'version = "v2"\ndisplay_name = "Shop"\ndescription = "d"\n',
    'components/web.toml': 'name = "web"\ntype = "script"\nsource = "../src/web"\n',
    ...Object.fromEntries(
      ['deploy.sh', 'destroy.sh', 'status.sh'].map((name) => [`src/web/${name}`, '#!/bin/sh\nexit 0\n']),
    ),
    'actions/backup.toml': `name = "backup"
timeout = "5m"
[[triggers]]
type = "cron"
cron_schedule = "0 0 1 1 *"
[[steps]]
name = "dump"
command = 'test ! -e state-of-the-run && ./dump.sh "$TABLE"'
env_vars = { TABLE = "orders-of-{{ .nuon.install.name }}" }
[steps.public_repo]
repo = "${git.url}"
directory = "scripts"
`,
  })
  await world.startAgent(server, { name: 'build-agent', role: 'build' })
  expect(await tenon('builds', 'create', app, '--component', 'web')).toMatch(/web +succeeded/)
  await startInstall()
  expect(await endOf({ kind: 'provision' })).toMatchObject({ status: 'succeeded' })
  await expect(tenon('actions', 'run', 'acme', 'backup')).rejects.toThrow(
    /not built yet: action:backup[^]*tenon builds create --component action:backup/,
  )

  const built = await tenon('builds', 'create', app, '--component', 'action:backup')
  expect(built).toMatch(/action:backup +succeeded/)
  const [build] = (await server.client.call('builds.list', { query: {} })).items
  const job = await server.client.call('jobs.get', { params: { id: build!.jobId! } })
  expect(job.result).toMatchObject({ sources: [{ ref: 'main', directory: 'scripts', commit }] })
  await git.close()

  expect(await tenon('actions', 'run', 'acme', 'backup')).toMatch(/action:backup +succeeded/)
  const byHand = await endOf({ kind: 'action' })
  const step = byHand.steps.find(({ key }) => key === 'action:backup')!
  expect(await tenon('logs', step.jobId!)).toContain('said: dumping orders-of-acme of acme')

  await query(databaseUrl, `update install_action set next_at = now() - interval '1 second'`)
  expect(await endOf({ kind: 'action', createdBy: 'schedule' })).toMatchObject({ status: 'succeeded' })
}, 300_000)
