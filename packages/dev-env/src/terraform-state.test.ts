import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runTenon } from './command.ts'
import { processesOf } from './leftovers.ts'
import { buildPrograms } from './programs.ts'
import { INSTALL, Stage } from './stage.ts'
import { APP, makeTemplate, type Template } from './template.ts'
import { until } from './until.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL'] ?? ''
const hasTerraform = spawnSync('terraform', ['version']).status === 0
const MARKER = 'marker-in-the-state-0815'

/** A job that applies a configuration whose state holds the install's secret, through the SDK's own bridge. */
const JOB = `
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { createJobApi } from './sdk/job-api.ts'
import { openStateBridge } from './sdk/state-bridge.ts'
const socketPath = process.env.TENON_JOB_URL.slice('unix:'.length)
const api = createJobApi({ socketPath, token: readFileSync(process.env.TENON_JOB_TOKEN_FILE, 'utf8').trim() })
const { kind } = await api.manifest()
if (kind === 'deploy') {
  const bridge = await openStateBridge({ api, log: console.log })
  const hold = new URL('hold', import.meta.url).pathname
  const reached = 'echo the lock is held; while [ -e ' + hold + ' ]; do sleep 0.05; done'
  mkdirSync('work')
  writeFileSync('work/main.tf', \`
    terraform {
      backend "http" {}
    }
    variable "secret" { sensitive = true }
    resource "terraform_data" "it" { input = var.secret }
    resource "terraform_data" "slow" {
      triggers_replace = timestamp()
      provisioner "local-exec" { command = "\${reached}" }
    }\`)
  const env = {
    PATH: process.env.PATH, HOME: process.cwd() + '/work', TF_CLI_CONFIG_FILE: '/dev/null', CHECKPOINT_DISABLE: '1',
    TF_VAR_secret: await api.secret('api-key'), ...bridge.env('worker'),
  }
  const terraform = (...args) => new Promise((resolve) => {
    const child = spawn('terraform', args, { cwd: 'work', env, stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    child.stdout.on('data', (part) => { text += part; if (args[0] === 'apply') process.stdout.write(part) })
    child.on('close', (code) => { if (code !== 0) { console.log(args[0], 'failed', text); process.exit(1) } resolve(text) })
  })
  console.log('the secret is', env.TF_VAR_secret, Buffer.from('a' + env.TF_VAR_secret).toString('base64'))
  await terraform('init', '-input=false', '-no-color')
  await terraform('apply', '-auto-approve', '-no-color', '-input=false')
  const state = JSON.parse(await terraform('state', 'pull'))
  const value = state.resources.find(({ name }) => name === 'it').instances[0].attributes.output.value
  await api.putOutputs('worker', {
    lineage: { value: state.lineage, sensitive: false },
    sha256: { value: createHash('sha256').update(value).digest('hex'), sensitive: false },
  })
}
await api.putResult({ ok: true, message: 'worked', data: {} })
process.exit(0)
`

let dist: string
let removePrograms: () => void = () => undefined
let template: Template
let stage: Stage
let programs: string

beforeAll(async () => {
  if (!hasTerraform) return
  const built = await buildPrograms(root)
  dist = built.dist
  removePrograms = built.remove
  template = await makeTemplate({ dist, clusterUrl })
}, 120_000)
afterAll(async () => {
  await template?.remove()
  removePrograms()
})

async function begin(): Promise<void> {
  stage = new Stage({ dist })
  await stage.begin(template)
  programs = stage.world.folder('programs')
  await build({
    stdin: { contents: JOB, resolveDir: join(root, 'packages/plugins/src'), loader: 'ts' },
    outfile: join(programs, 'job.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
  })
  const config = { secrets: ['api-key'] }
  const components = [{ name: 'worker', type: 'script', dependencies: [], config }]
  const app = { name: APP, displayName: 'Shop', description: '', components }
  await stage.client.call('apps.sync', { body: { app } })
  await stage.client.call('installs.create', { body: { name: INSTALL, app: APP, sandbox: { type: 'none' } } })
}

async function startAgent() {
  const wire = await stage.openWire()
  const env = { TENON_PROGRAMS_DIR: programs }
  const role = { install: INSTALL }
  const options = { name: 'agent', role, runtime: 'process' as const, serverUrl: wire.url, env }
  return stage.world.startAgent(stage.server, options)
}

async function setSecret(): Promise<void> {
  const file = join(stage.dir, 'value')
  writeFileSync(file, MARKER, { mode: 0o600 })
  const of = ['--file', file, '--dir', join(stage.dir, 'agent')]
  expect(await runTenon(stage, ['agent', 'secret', 'set', 'api-key', ...of])).toMatchObject({ code: 0 })
  rmSync(file)
}

async function deploy(): Promise<void> {
  await stage.client.call('deploys.create', { params: { ref: INSTALL }, body: { components: ['worker'] } })
}

async function outputs(): Promise<Record<string, unknown>> {
  const install = await stage.client.call('installs.get', { params: { ref: INSTALL } })
  const found = install.components.find(({ name }) => name === 'worker')?.outputs ?? {}
  return Object.fromEntries(Object.entries(found).map(([name, output]) => [name, output.value]))
}

/** Every row of every table, as text. */
async function databaseText(): Promise<string> {
  const tables = await stage.sql(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname not in ('pg_catalog', 'information_schema')`,
  )
  const rows = await Promise.all(
    tables.map(({ name }) => stage.sql(`select to_jsonb(t)::text as row from ${String(name)} t`)),
  )
  return rows.flatMap((found) => found.map(({ row }) => String(row))).join('\n')
}

function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = join(folder, name)
    return statSync(file, { throwIfNoEntry: false })?.isFile() && readFileSync(file).includes(text)
  })
}

describe.skipIf(!hasTerraform)('Terraform in an install’s jobs', { timeout: 180_000 }, () => {
  beforeEach(begin, 60_000)
  afterEach(() => stage.end())

  it('keeps a state that only the install sees, and frees the lock of a job that was killed', async () => {
    await startAgent()
    await stage.untilRun('failed')
    await setSecret()
    await deploy()
    await stage.untilRun('succeeded')
    const first = await outputs()
    expect(first).toMatchObject({ lineage: expect.stringMatching(/^[0-9a-f-]{36}$/) as string })

    writeFileSync(join(programs, 'hold'), '')
    await deploy()
    const job = await stage.untilJob('deploy:worker', 'running')
    await until('the lock to be held', async () => (await stage.log(job.id)).includes('the lock is held'))
    for (const { pid, command } of processesOf(join(stage.dir, 'agent'))) {
      if (/job\.mjs|terraform/.test(command)) killIfThere(pid)
    }
    await stage.untilRun('failed')
    rmSync(join(programs, 'hold'))
    await deploy()
    await stage.untilRun('succeeded')
    expect(await outputs()).toEqual(first)

    const text = await databaseText()
    expect(text).toContain(first['lineage'])
    expect(text).not.toContain(MARKER)
    const captured = stage.wire().captured()
    expect(captured).toContain(first['lineage'])
    expect(captured).not.toContain(MARKER)
    expect(captured).not.toContain('"terraform_version"')
    expect(captured).not.toContain(Buffer.from(`a${MARKER}`).toString('base64').slice(2, -4))
    expect(captured).toContain(`the secret is ${'*'.repeat(MARKER.length)} `)
    await until('the folder of the last job to be gone', () => filesWith(stage.dir, MARKER).length === 0)
    expect(filesWith(stage.dir, '"terraform_version"')).toEqual([])
  })
})

/** It may end by itself between the look and the signal. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
