import { execFile } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestMachine } from './test-machine.ts'
import type { TestMachine } from './test-machine.ts'

const run = promisify(execFile)
const SOURCES = join(import.meta.dirname, '../../../examples/hello/src')

let machine: TestMachine
let work: string
let socketPath: string

beforeAll(async () => {
  machine = await createTestMachine()
  await machine.start()
  socketPath = (await (await machine.admin()).putInstall('acme', {})).install.socketPath
  work = await mkdtemp(join(tmpdir(), 'lh-job-'))
  const helper = join(work, 'bin/tenon-host')
  const outfile = `${helper}.mjs`
  const entry = join(import.meta.dirname, 'tenon-host.ts')
  await build({ entryPoints: [entry], bundle: true, platform: 'node', format: 'esm', outfile })
  await writeFile(helper, `#!/bin/sh\nexec node "${outfile}" "$@"\n`)
  await chmod(helper, 0o755)
  await symlink(process.execPath, join(work, 'bin/node'))
})

afterAll(async () => {
  await machine.cleanUp()
  await rm(work, { recursive: true })
})

describe('the hello example', () => {
  it('is deployed, seen, updated and removed by its scripts', async () => {
    const greeter = await job('greeter', 'deploy')
    const web = await job('web', 'deploy')
    expect(greeter.outputs).toEqual({ url: { value: expect.stringMatching(/^http:/), sensitive: false } })

    const page = await (await fetch(web.outputs.url.value)).text()
    expect(page).toContain('inside the customer’s own install')
    expect(page).toContain('<code>acme</code>')
    expect(page).toContain('answered</span> in')

    expect(JSON.parse((await job('web', 'status')).stdout)).toMatchObject({ name: 'web', state: 'healthy' })
    const again = await job('web', 'deploy')
    expect(again.stderr).toContain('unchanged and healthy')

    await job('greeter', 'destroy')
    expect(await (await fetch(web.outputs.url.value)).text()).toContain('no answer</span>')
    await job('web', 'destroy')
    await expect(fetch(web.outputs.url.value)).rejects.toThrow('fetch failed')
    await expect(job('web', 'status')).rejects.toMatchObject({ code: 1 })
  })
})

describe('tenon-host', () => {
  it('fails with the reason and the last log lines when the service does not come up', async () => {
    const args = ['service', 'apply', 'bad', '--health', '/', '--', 'sh', '-c', 'echo out of luck; exit 4']
    const failure = run('tenon-host', args, { cwd: machine.service, env: environment() })
    await expect(failure).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/exit code 4[^]*bad \| out of luck/),
    })
    await run('tenon-host', ['service', 'remove', 'bad'], { env: environment() })
  })

  it.each([
    [['service', 'apply', 'x'], 'after "--"'],
    [['service', 'explode', 'x'], 'There is no "service explode"'],
    [['service', 'apply', 'x', '--env', 'novalue', '--', 'true'], '--env wants NAME=VALUE'],
    [['service', 'apply', 'x', '--what', '--', 'true'], '--what'],
    [[], 'which service'],
  ])('explains wrong use: %j', async (args, text) => {
    const failure = run('tenon-host', args, { env: environment() })
    await expect(failure).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining(text) })
  })

  it('hands over secrets as files', async () => {
    await writeFile(join(work, 'password'), 'hunter2\n')
    const command = ['sh', '-c', 'cat "$TENON_FILES/db"; exec sleep 300']
    const args = ['service', 'apply', 'filed', '--file', `db=${join(work, 'password')}`, '--', ...command]
    await run('tenon-host', args, { cwd: machine.service, env: environment() })
    expect(await (await machine.install('acme')).serviceLogs('filed')).toContain('hunter2')
  })
})

/** As the shell-script wrapper of a job runs it: unpacked component, outputs folder, outputs of dependencies. */
async function job(component: string, script: string) {
  const folder = await mkdtemp(join(work, `${component}-${script}-`))
  const outputs = join(folder, 'out/outputs.json')
  await cp(join(SOURCES, component), join(folder, 'component'), { recursive: true })
  await mkdir(dirname(outputs))
  await writeFile(join(folder, 'inputs.json'), '{}')
  const env = environment({
    TENON_OUT: dirname(outputs),
    TENON_INPUTS: join(folder, 'inputs.json'),
    TENON_DEPENDENCIES: join(work, 'dependencies'),
  })
  const { stdout, stderr } = await run(join(folder, 'component', `${script}.sh`), { cwd: folder, env })
  const written = (script === 'deploy' ? JSON.parse(await readFile(outputs, 'utf8')) : {}) as Outputs
  if (script === 'deploy') {
    await mkdir(join(work, 'dependencies'), { recursive: true })
    await cp(outputs, join(work, 'dependencies', `${component}.json`))
  }
  await rm(folder, { recursive: true })
  return { stdout, stderr, outputs: written }
}

function environment(more: Record<string, string> = {}): Record<string, string> {
  return { PATH: `${join(work, 'bin')}:/usr/bin:/bin`, TENON_HOST_SOCKET: socketPath, ...more }
}

interface Outputs {
  url: { value: string; sensitive: boolean }
}
