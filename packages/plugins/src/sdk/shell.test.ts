import { execFileSync } from 'node:child_process'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ManifestOperation } from '@tenon/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobRecord } from '../testing/job-api-server.ts'
import { INSTALL_ID, JobWorld } from '../testing/job-world.ts'
import { isAlive, until } from '../testing/programs.ts'
import { createJobApi } from './job-api.ts'
import type { OperationContext } from './plugin.ts'
import { runShell } from './shell.ts'

describe('the shell wrapper', () => {
  let world: JobWorld

  beforeAll(async () => {
    world = await JobWorld.create()
  })
  afterAll(() => world.close())

  const prepare = async (
    script: string,
    options: { config?: ManifestOperation['config']; record?: Partial<JobRecord> } = {},
  ) => {
    const folder = await world.folder({ 'run.sh': `#!/bin/sh\n${script}\n` })
    const server = await world.jobApi([{ config: options.config ?? {} }], options.record)
    const { manifest, context: job } = server.record
    const workDir = join(folder, 'work')
    await mkdir(workDir)
    const stop = new AbortController()
    const context: OperationContext = {
      manifest,
      operation: manifest.operations[0] as ManifestOperation,
      job,
      api: createJobApi({ socketPath: server.socketPath, token: server.token }),
      artifact: () => Promise.reject(new Error('no artifact is needed here')),
      rendered: () => Promise.reject(new Error('nothing is rendered here')),
      log: () => undefined,
      workDir,
      baseEnv: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: folder },
      signal: stop.signal,
    }
    const run = () => runShell(context, { path: join(folder, 'run.sh'), cwd: folder })
    return { folder, stop, run, server }
  }
  const file = (folder: string, name: string) => readFile(join(folder, name), 'utf8')

  it('turns the job API into files and environment', async () => {
    const { folder, run } = await prepare(
      `env | sort > env; cp "$TENON_INPUTS" inputs; cp "$TENON_MANIFEST" manifest
       cat "$TENON_SECRETS/password" > secret; stat -c %a "$TENON_SECRETS/password" > mode; ls "$TENON_SECRETS" > names
       cp "$TENON_DEPENDENCIES/db.json" dependency; command -v tenon-host > helper
       printf '{"url": {"sensitive": false, "value": "http://x"}}' > "$TENON_OUT/outputs.json"
       printf '{"message": "up", "data": {"port": 7}}' > "$TENON_OUT/result.json"`,
      {
        config: { inputs: { size: 'l' }, secrets: ['password'], dependencies: ['db'] },
        record: {
          secrets: { password: 'hunter2', other: 'not asked for' },
          outputs: { db: { url: { sensitive: true, value: 'postgres://secret' } } },
        },
      },
    )
    const result = await run()
    expect(result).toEqual({
      ok: true,
      message: 'up',
      data: { port: 7 },
      outputs: { url: { sensitive: false, value: 'http://x' } },
    })
    expect(JSON.parse(await file(folder, 'inputs'))).toEqual({ size: 'l' })
    expect(JSON.parse(await file(folder, 'manifest'))).toMatchObject({ version: 2 })
    expect(await file(folder, 'secret')).toBe('hunter2')
    expect(await file(folder, 'mode')).toBe('600\n')
    expect(await file(folder, 'names')).toBe('password\n')
    expect(JSON.parse(await file(folder, 'dependency')).url.value).toBe('postgres://secret')
    expect(await file(folder, 'helper')).toBe(`${folder}/work/bin/tenon-host\n`)
    const env = await file(folder, 'env')
    expect(env).toContain(`TENON_INSTALL_ID=${INSTALL_ID}\n`)
    expect(env).toContain('TENON_COMPONENT=web\n')
    expect(env).not.toMatch(/hunter2|TENON_JOB|TENON_HOST_SOCKET/)
  })

  it('reports a script that fails as a result, with its own words', async () => {
    const { run } = await prepare(`printf '{"message": "no disk"}' > "$TENON_OUT/result.json"; exit 3`)
    expect(await run()).toEqual({
      ok: false,
      message: 'run.sh ended with code 3: no disk',
      data: { exitCode: 3 },
    })
  })

  it('says so when a script cannot be started or a secret is not there', async () => {
    const { folder, run } = await prepare('')
    await writeFile(join(folder, 'run.sh'), '#!/no/such/interpreter\n')
    await expect(run()).rejects.toMatchObject({ code: 'script_failed' })
    const without = await prepare('exit 0', { config: { secrets: ['absent'] } })
    await expect(without.run()).rejects.toMatchObject({ code: 'job_api_refused' })
  })

  it.each([{ secrets: ['../../escape'] }, { dependencies: ['../x'] }, { secrets: 'all' }])(
    'refuses the configuration %j',
    async (config) => {
      const { run } = await prepare('exit 0', { config })
      await expect(run()).rejects.toMatchObject({ code: 'config_invalid' })
    },
  )

  it('ends a hanging script with everything it started when the job is told to stop', async () => {
    const { folder, run, stop } = await prepare(
      `trap '' TERM; sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 0.2; done' & echo $$ > parent; wait; wait`,
    )
    const running = run()
    const read = (name: string) => file(folder, name).catch(() => '')
    const child = Number(await until('the child', () => read('child')))
    const parent = Number(await until('the parent', () => read('parent')))
    stop.abort()
    await expect(running).rejects.toMatchObject({ code: 'canceled' })
    await until('both to be gone', () => !isAlive(child) && !isAlive(parent))
  })

  it('lets a script clean up before it ends', async () => {
    const { folder, run, stop } = await prepare(
      `trap 'echo cleaned > cleaned; exit 0' TERM; echo up > up; while :; do sleep 0.05; done`,
    )
    const running = run()
    await until('the script', () => file(folder, 'up').catch(() => ''))
    stop.abort()
    await expect(running).rejects.toMatchObject({ code: 'canceled' })
    expect(await file(folder, 'cleaned')).toBe('cleaned\n')
  })

  it('leaves nothing running that a finished script started', async () => {
    const { folder, run } = await prepare(`sleep 300 & echo $! > left`)
    expect((await run()).ok).toBe(true)
    const left = Number(await file(folder, 'left'))
    await until('the leftover to be gone', () => !isAlive(left))
  })

  it.each([
    ['is a link', 'ln -s /etc/passwd "$TENON_OUT/outputs.json"'],
    ['is a pipe', 'mkfifo "$TENON_OUT/outputs.json"'],
    ['is a folder', 'mkdir "$TENON_OUT/outputs.json"'],
    ['is too large', 'head -c 2000000 /dev/zero | tr "\\0" " " > "$TENON_OUT/outputs.json"'],
    ['is no JSON', 'echo "{" > "$TENON_OUT/outputs.json"'],
    ['is no UTF-8', `printf '{"a\\377": 1}' > "$TENON_OUT/outputs.json"`],
    ['is a list', 'echo "[]" > "$TENON_OUT/outputs.json"'],
    ['lacks sensitive', `echo '{"a": {"value": 1}}' > "$TENON_OUT/outputs.json"`],
    [
      'is nested without end',
      `{ printf '{"a":{"sensitive":false,"value":'; head -c 400000 /dev/zero | tr "\\0" "["; } > "$TENON_OUT/outputs.json"`,
    ],
    ['has a result of the wrong form', `echo '{"data": 7}' > "$TENON_OUT/result.json"`],
  ])('refuses what a script left behind when it %s', async (_what, script) => {
    const { run } = await prepare(script)
    await expect(run()).rejects.toMatchObject({ code: 'outputs_invalid' })
  })

  it('runs a script that is not executable with the system shell', async () => {
    const { folder, run } = await prepare('echo ran > ran')
    execFileSync('chmod', ['644', join(folder, 'run.sh')])
    expect((await run()).ok).toBe(true)
    expect((await stat(join(folder, 'ran'))).isFile()).toBe(true)
  })
})
