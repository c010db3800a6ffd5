import { once } from 'node:events'
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobSpec, Runtime } from '../runtime.ts'
import type { Services, WantedService } from '../services.ts'
import { createDockerRuntime } from './docker-runtime.ts'
import { createEngine } from './engine.ts'
import { callEngine, readText } from './engine-http.ts'
import { buildTestImage, missingFor, startEngine } from './engines.testing.ts'
import type { EngineName, TestEngine } from './engines.testing.ts'

const never = new AbortController().signal
const KEY = 'services-test'
const NETWORK = `tenon-${KEY}`

for (const name of ['docker', 'podman'] as const) {
  const missing = await missingFor(name)
  const title = missing === undefined ? name : `${name} (${missing})`
  describe.skipIf(missing !== undefined)(`a service on ${title}`, { timeout: 180_000 }, () => {
    describeServices(name)
  })
}

/** One life of a service, in this order: each test goes on where the one before it ended. */
function describeServices(name: EngineName): void {
  let world: TestEngine
  let image: string
  let runtime: Runtime
  let services: Services
  const open = (more: { serviceBytes?: number } = {}) => {
    runtime = createDockerRuntime({
      ...more,
      socketPaths: [world.socketPath],
      dir: path.join(world.dir, 'jobs'),
      log: pino({ level: 'silent' }),
      agentKey: KEY,
      image,
    })
    services = runtime.services!
  }
  const startJob = async (jobId: string) => {
    await runtime.start(jobSpec(jobId))
    return jobId
  }
  const serving = (words: string, more: Partial<WantedService> = {}): WantedService => ({
    image,
    replicas: 2,
    port: 8000,
    command: ['/bin/sh', '-c', SERVE],
    env: { WORDS: words },
    ...more,
  })
  const deployed = async (words: string) => {
    const state = await services.bring('web', serving(words), 'deploy')
    await answers(world, state.next?.replicas.map(({ address }) => address) ?? [], words)
    return services.settle('web', 'new')
  }

  beforeAll(async () => {
    world = await startEngine(name)
    image = await world.load(await buildTestImage(world.dir))
    open()
    await startJob('deploy')
  })
  afterAll(() => world.close())

  it('comes up with all its replicas, without a name before it is settled, and with no rights', async () => {
    expect(await services.look('web')).toEqual({ host: 'web', current: null, next: null })
    const brought = await services.bring('web', serving('one'), 'deploy')
    expect(brought).toMatchObject({ changed: true, current: null, next: { wanted: 2, port: 8000, image } })
    const { replicas } = brought.next!
    expect(replicas.map(({ number, isRunning }) => [number, isRunning])).toEqual([
      [1, true],
      [2, true],
    ])
    await answers(
      world,
      replicas.map(({ address }) => address),
      'one',
    )
    const again = await services.bring('web', serving('one'), 'deploy')
    expect(again.next?.id).toBe(brought.next?.id)
    expect(await namesIn(world, replicas[0]!.name)).not.toContain('web')
    const settled = await services.settle('web', 'new')
    expect(settled).toMatchObject({ next: null, current: { id: brought.next?.id } })
    const addresses = settled.current!.replicas.map(({ address }) => address).toSorted()
    await until('the name to lead to both', async () => {
      return String(await namesakes(world, runtime)) === String(addresses) || undefined
    })
    const shown = await inspect(world, replicas[0]!.name)
    expect(shown.HostConfig).toMatchObject({ Privileged: false, RestartPolicy: { Name: 'unless-stopped' } })
    expect(shown.HostConfig.Memory).toBe(1024 ** 3)
    expect(shown.Mounts).toEqual([])
    const status = await execIn(world, replicas[0]!.name, ['cat', '/proc/1/status'])
    expect(status).toMatch(/CapBnd:\t0+\n/)
    expect(status).toMatch(/NoNewPrivs:\t1/)
  })

  it('is left alone when nothing changes, and the environment is compared by its names', async () => {
    const before = await services.look('web')
    expect(await services.bring('web', serving('one'), 'deploy')).toMatchObject({
      changed: false,
      current: { id: before.current?.id },
      next: null,
    })
    expect(await services.compare('web', serving('one'))).toEqual({ changes: [] })
    const wanted = serving('secret-words', { replicas: 3, env: { WORDS: 'secret-words', MORE: 'x' } })
    const { changes } = await services.compare('web', wanted)
    expect(changes).toEqual([
      { field: 'replicas', before: '2', after: '3' },
      { field: 'env.MORE', before: null, after: 'set' },
      { field: 'env.WORDS', before: 'set', after: 'changed' },
    ])
  })

  // Podman's name server (aardvark-dns 1.4) is silent for up to a minute when it is asked while it reads its names again.
  it.skipIf(name === 'podman')(
    'changes over without a moment in which nobody answers to its name',
    async () => {
      const client = await openClient(world, runtime)
      try {
        await client.until('one')
        const before = await services.look('web')
        const after = await deployed('two')
        expect(after.current?.id).not.toBe(before.current?.id)
        await client.until('two')
        expect(client.heard.filter((line) => line !== 'one' && line !== 'two')).toEqual([])
        expect(client.heard.lastIndexOf('one')).toBeGreaterThan(-1)
      } finally {
        await client.close()
      }
    },
  )

  it.runIf(name === 'podman')(
    'changes over to a generation that answers, asked by its addresses',
    async () => {
      const before = await services.look('web')
      const after = await deployed('two')
      expect(after.current?.id).not.toBe(before.current?.id)
      await answers(
        world,
        after.current!.replicas.map(({ address }) => address),
        'two',
      )
    },
  )

  it('that crashes is told with exit code and last words, and what ran before goes on', async () => {
    const before = await services.look('web')
    const command = ['/bin/sh', '-c', 'echo "no room for $WORDS"; exit 3']
    await services.bring('web', serving('three', { command }), 'deploy')
    const crashed = await until('three crashes', async () => {
      const replica = (await services.look('web')).next?.replicas[0]
      return replica && replica.restarts >= 3 && replica.exitCode !== null ? replica : undefined
    })
    expect(crashed).toMatchObject({ exitCode: 3, isRunning: false })
    const { replicas } = await services.logs('web', 2)
    expect(replicas.find((each) => each.name === crashed.name)?.text).toBe(
      'no room for three\nno room for three\n',
    )
    const settled = await services.settle('web', 'old')
    expect(settled.next).toBeNull()
    expect(settled.current?.id).toBe(before.current?.id)
    await answers(
      world,
      settled.current!.replicas.map(({ address }) => address),
      'two',
    )
  })

  it('that wants more memory than it may have is told as killed for that', async () => {
    open({ serviceBytes: 32 << 20 })
    const command = ['/bin/sh', '-c', 'exec tail /dev/zero']
    await services.bring('hungry', serving('x', { command, replicas: 1 }), 'deploy')
    const killed = await until('its end', async () => {
      const replica = (await services.look('hungry')).next?.replicas[0]
      return replica?.exitCode === null ? undefined : replica
    })
    // Podman with runc tells the signal alone.
    expect(killed).toMatchObject({ exitCode: 137, wasOomKilled: name === 'docker' })
    await services.settle('hungry', 'old')
    expect(await services.look('hungry')).toMatchObject({ current: null, next: null })
    open()
  })

  it('whose program or image is not there is refused in words, and leaves nothing', async () => {
    const before = await containersOf(world)
    const command = ['/no/such/program']
    await expect(services.bring('web', serving('x', { command }), 'deploy')).rejects.toMatchObject({
      code: 'start',
      message: expect.stringContaining('/no/such/program'),
    })
    const absent = `127.0.0.1:9/apps/web@sha256:${'0'.repeat(64)}`
    await expect(services.bring('web', serving('x', { image: absent }), 'deploy')).rejects.toMatchObject({
      code: 'image',
      message: expect.stringContaining(absent),
    })
    expect(await containersOf(world)).toEqual(before)
  })

  it('is found by the next life of the agent, which takes none of it for a job', async () => {
    const before = await services.look('web')
    open()
    expect((await runtime.list()).map(({ jobId }) => jobId)).toEqual(['deploy'])
    expect(await services.look('web')).toEqual(before)
    expect(await services.bring('web', serving('two'), 'deploy')).toMatchObject({ changed: false })
  })

  it('shows a replica that was taken away, and mends it by a new generation', async () => {
    const before = await services.look('web')
    await createEngine([world.socketPath]).remove(before.current!.replicas[0]!.name)
    const drifted = await services.look('web')
    expect(drifted.current).toMatchObject({ id: before.current!.id, wanted: 2 })
    expect(drifted.current?.replicas.map(({ number }) => number)).toEqual([2])
    expect(await services.bring('web', serving('two'), 'deploy')).toMatchObject({ changed: true })
    const mended = await services.settle('web', 'new')
    expect(mended.current?.replicas).toHaveLength(2)
    expect(mended.current?.id).not.toBe(before.current!.id)
  })

  it('loses what a job brought up and did not settle, once that job is removed', async () => {
    const before = await services.look('web')
    await startJob('killed')
    expect((await services.bring('web', serving('four'), 'killed')).next).not.toBeNull()
    await runtime.remove('killed')
    expect(await services.look('web')).toEqual(before)
  })

  it('goes without a trace, and its network with the last one', async () => {
    await services.bring('other', serving('other', { replicas: 1 }), 'deploy')
    await services.settle('other', 'new')
    await services.remove('web')
    expect((await services.look('other')).current?.replicas).toHaveLength(1)
    expect(await networks(world)).toContain(NETWORK)
    await services.remove('other')
    await services.remove('other')
    expect(await networks(world)).not.toContain(NETWORK)
    await runtime.remove('deploy')
    expect(await containersOf(world)).toEqual([])
  })
}

const SERVE =
  'cd /dev/shm && echo "$WORDS" >index.html && { busybox httpd -f -p 8000 & }; trap exit TERM; wait'

function jobSpec(jobId: string): JobSpec {
  const limits = { memoryBytes: 64 << 20, cpus: 1, pids: 32, timeoutSeconds: 600, graceSeconds: 1 }
  const command = ['/bin/sh', '-c', 'exec sleep 1000']
  const env = { PATH: '/usr/bin:/bin' }
  return { jobId, fence: 1, command, env, files: {}, mounts: [], network: 'egress', limits }
}

/** As a program in the engine's own network is answered. */
async function answers(world: TestEngine, addresses: (string | null)[], words: string): Promise<void> {
  for (const address of addresses) {
    await until(`${address} to answer ${words}`, async () => {
      const script = `fetch('http://${address}:8000/index.html').then(async (a) => console.log(await a.text()), () => 0)`
      const child = world.spawnBeside(process.execPath, ['-e', script])
      let said = ''
      child.stdout?.on('data', (bytes) => (said += String(bytes)))
      await once(child, 'close')
      return said.trim() === words || undefined
    })
  }
}

async function until<T>(what: string, check: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + 60_000
  for (;;) {
    const value = await check()
    if (value !== undefined) return value
    if (Date.now() > deadline) throw new Error(`waited a minute in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** As the job's own resolver says, asked in the job's network for addresses of version 4 alone. */
async function namesakes(world: TestEngine, runtime: Runtime): Promise<string[]> {
  const script = `${RESOLVER}
resolver.resolve4('web').then((all) => console.log(all.sort().join()), () => 0)`
  const child = await spawnInJob(world, runtime, script)
  let said = ''
  child.stdout?.on('data', (bytes) => (said += String(bytes)))
  await once(child, 'close')
  return said.trim().split(',').toSorted()
}

async function namesIn(world: TestEngine, name: string): Promise<string[]> {
  const { NetworkSettings } = await inspect(world, name)
  return NetworkSettings.Networks[NETWORK]?.Aliases ?? []
}

async function spawnInJob(world: TestEngine, runtime: Runtime, script: string): Promise<ChildProcess> {
  const resolv = await execInJob(runtime, ['cat', '/etc/resolv.conf'])
  const server = /nameserver (\S+)/.exec(resolv)?.[1] ?? ''
  const { State } = await inspect(world, `tenon-${KEY}-deploy`)
  const args = ['--target', String(State.Pid), '--net', process.execPath, '-e', script, server]
  return spawn('/usr/bin/nsenter', args, { stdio: ['ignore', 'pipe', 'inherit'] })
}

async function execInJob(runtime: Runtime, command: string[]): Promise<string> {
  const { output, exitCode } = await runtime.exec('deploy', command, { tty: false, signal: never })
  let text = ''
  for await (const { bytes } of output) text += Buffer.from(bytes).toString()
  await exitCode
  return text
}

async function execIn(world: TestEngine, name: string, command: string[]): Promise<string> {
  const engine = createEngine([world.socketPath])
  const { output } = await engine.exec(name, command, { tty: false, signal: never })
  let text = ''
  for await (const { bytes } of output) text += Buffer.from(bytes).toString()
  return text
}

/** Podman's name server says nothing while it reads its names again, so it is asked often. */
const RESOLVER = `
const resolver = new (require('node:dns').promises.Resolver)({ timeout: 500, tries: 20 })
resolver.setServers([process.argv[1]])`

/** In the network of another container, by name, over and over; whatever fails is tried twice more. */
const CLIENT = `${RESOLVER}
const http = require('node:http')
const get = (host) => new Promise((resolve, reject) => {
  const request = http.get({ host, port: 8000, path: '/index.html', agent: false, timeout: 3000 }, (answer) => {
    let text = ''
    answer.on('data', (part) => (text += part)).on('end', () => resolve(text.trim())).on('error', reject)
  })
  request.on('error', reject).on('timeout', () => request.destroy(new Error('timeout')))
})
const ask = async () => {
  const all = await resolver.resolve4('web')
  return get(all[Math.floor(Math.random() * all.length)])
}
;(async () => {
  for (;;) {
    const tried = []
    let said
    while (said === undefined && tried.length < 3) said = await ask().catch((error) => void tried.push(error.message))
    console.log(said ?? 'nobody: ' + tried.join(', '))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
})()`

async function openClient(world: TestEngine, runtime: Runtime) {
  const child = await spawnInJob(world, runtime, CLIENT)
  const heard: string[] = []
  child.stdout?.on('data', (bytes) => heard.push(...String(bytes).trim().split('\n')))
  return {
    heard,
    until: (words: string) => until(`to hear ${words}`, async () => heard.at(-1) === words || undefined),
    async close() {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
  }
}

interface Inspected {
  HostConfig: { Memory: number }
  Mounts: unknown[]
  State: { Pid: number }
  NetworkSettings: { Networks: Record<string, { Aliases: string[] | null }> }
}

async function inspect(world: TestEngine, name: string): Promise<Inspected> {
  return (await ask(world, `/containers/${name}/json`)) as Inspected
}

async function containersOf(world: TestEngine): Promise<string[]> {
  const all = (await ask(world, '/containers/json?all=true')) as { Id: string }[]
  return all.map(({ Id }) => Id).toSorted()
}

async function networks(world: TestEngine): Promise<string[]> {
  return ((await ask(world, '/networks')) as { Name: string }[]).map(({ Name }) => Name)
}

async function ask(world: TestEngine, of: string): Promise<unknown> {
  return JSON.parse(
    await readText(await callEngine(world.socketPath, { method: 'GET', path: `/v1.41${of}` })),
  )
}
