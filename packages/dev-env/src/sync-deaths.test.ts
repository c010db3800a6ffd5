import { collectGarbage, createFileStorage, packFolder } from '@tenon/oci'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createHoldingWay, type HoldingWay } from './holding-way.ts'
import { startProgram, type Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { until } from './until.ts'
import { createWorld, type ServerHandle, type World } from './world.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL']
const APP = 'shop'
/** Random, so that it is as large on the wire as on disk. */
const SIZE = 12_000_000
/** Everything else of a sync that is not the large blob: plugin, manifests, signatures, what was on its way. */
const SLACK = 2_500_000

type Victim = 'agent' | 'job' | 'registry'
interface Death {
  install: string
  victims: Victim[]
  /** The byte of the blob, the same at every run. */
  point: number
}

const KINDS: Victim[][] = [['job'], ['agent'], ['registry'], ['agent', 'job']]
/** One of each kind every day; more of them, at other bytes, where a run may take longer. */
const ASKED = process.env['TENON_KILL_POINTS'] ?? '4'
const DEATHS = ASKED === 'all' ? everyDeath() : seededDeaths(Number(ASKED))
const PATIENCE_SECONDS = 120

/** Each kind in each megabyte in which the blob can be held. */
function everyDeath(): Death[] {
  const megabytes = Array.from({ length: 9 }, (_, index) => index + 2)
  return megabytes.flatMap((at) =>
    KINDS.map((victims, kind) => ({ install: `install-${at}-${kind}`, victims, point: at * 1_000_000 })),
  )
}

function seededDeaths(count: number): Death[] {
  return Array.from({ length: count }, (_, index) => {
    const digest = createHash('sha256')
      .update(`sync death ${index + 1}`)
      .digest()
    return {
      install: `install-${index + 1}`,
      victims: KINDS[index % KINDS.length]!,
      point: Math.floor((0.1 + (0.8 * digest.readUInt16BE()) / 65_535) * SIZE),
    }
  })
}

/** The real server, build, agent, jobs and registry; only the network is watched. */
describe('a sync that dies in the middle of a blob', () => {
  const dir = mkdtempSync(join(tmpdir(), 'tenon-sync-deaths-'))
  const started: Program[] = []
  let removePrograms = () => undefined as void
  let world: World
  let server: ServerHandle
  let dist: string

  beforeAll(async () => {
    if (!clusterUrl) throw new Error('the run has no PostgreSQL: postgres/vitest-global-setup.ts starts it')
    const built = await buildPrograms(root)
    ;({ dist, remove: removePrograms } = built)
    world = createWorld({ dir, dist, onStart: (program) => started.push(program) })
    const name = `sync_deaths_${randomBytes(6).toString('hex')}`
    const pg = (await import('pg')).default
    const admin = new pg.Client({ connectionString: clusterUrl })
    await admin.connect()
    await admin.query(`create database ${name}`)
    await admin.end()
    const url = new URL(clusterUrl)
    url.pathname = name
    server = await world.startServer({
      env: { DATABASE_URL: url.href, TENON_HEARTBEAT_SECONDS: '0.5', TENON_RATE_LIMIT_PER_MINUTE: '1000000' },
    })
    await buildLargeApp()
  }, 240_000)
  afterAll(async () => {
    await Promise.all(started.toReversed().map((program) => program.stop()))
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
    removePrograms()
  }, 60_000)

  async function buildLargeApp(): Promise<void> {
    const { client } = server
    const source = join(world.folder('source'), 'web')
    mkdirSync(source)
    for (const script of ['deploy.sh', 'destroy.sh', 'status.sh'])
      writeFileSync(join(source, script), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
    writeFileSync(join(source, 'content.bin'), randomBytes(SIZE))
    const components = [{ name: 'web', type: 'script', dependencies: [], config: {} }]
    await client.call('apps.sync', {
      body: { app: { name: APP, displayName: 'Shop', description: '', components } },
    })
    const agent = await world.startAgent(server, { name: 'build-agent', role: 'build' })
    const { digest } = await client.call('sources.put', { body: await packFolder(source) })
    const { builds } = await client.call('builds.create', {
      params: { ref: APP },
      body: { components: [{ name: 'web', source: digest }] },
    })
    const ended = await until(
      'the build',
      async () => {
        const build = await client.call('builds.get', { params: { id: builds[0]!.id } })
        return build.finishedAt !== null && build
      },
      120,
    )
    expect([ended.status, ended.message]).toEqual(['succeeded', ended.message])
    await agent.stop()
  }

  async function startInstall(name: string, way: HoldingWay) {
    await server.client.call('installs.create', { body: { name, app: APP, sandbox: { type: 'none' } } })
    const keyFile = join(world.folder(`${name}-keys`), 'registry.key')
    writeFileSync(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
    const folder = world.folder(`${name}-registry`)
    const start = async (port: string) => {
      const program = startProgram({
        name: `${name}-registry`,
        bundle: join(dist, 'registry.mjs'),
        args: ['--dir', folder, '--port', port, '--key-file', keyFile],
        env: { PATH: process.env['PATH'] ?? '' },
        logFile: join(world.folder('log'), `${name}-registry.log`),
      })
      started.push(program)
      return { program, url: (await program.firstLine()).replace('registry listens at ', '') }
    }
    let registry = await start('0')
    const { url } = registry
    /** Answers how many bytes had been sent that it did not have yet. */
    const killRegistry = async (): Promise<number> => {
      registry.program.kill('SIGKILL')
      await registry.program.exited
      const lost = Math.max(0, way.bulkBytes() - bytesIn(folder))
      await until('the copy to leave what it cannot pass on', way.isLeft, PATIENCE_SECONDS)
      registry = await start(new URL(url).port)
      return lost
    }
    const env = { TENON_REGISTRY_URL: url, TENON_REGISTRY_KEY_FILE: keyFile }
    const startAgent = () =>
      world.startAgent(server, { name, role: { install: name }, runtime: 'process', serverUrl: way.url, env })
    return { folder, startAgent, killRegistry }
  }

  const syncOf = async (name: string) => {
    const { items } = await server.client.call('runs.list', { query: { install: name, limit: 1 } })
    const step = items[0]?.steps.find(({ key }) => key === 'sync:web')
    return step && { run: items[0]!, step }
  }

  const logOf = async (id: string | null) =>
    id === null ? '' : (await server.client.call('jobs.logs', { params: { id }, query: {} })).text()

  const retryFailed = async (name: string): Promise<void> => {
    const failed = await until(
      'the sync to fail',
      async () => {
        const found = await syncOf(name)
        return found?.step.status === 'failed' && found
      },
      PATIENCE_SECONDS,
    )
    await server.client.call('steps.retry', { params: { id: failed.run.id, step: failed.step.id } })
  }

  it.each(DEATHS)(
    'resumes and re-sends only what was missing: $victims killed at byte $point',
    async ({ install: name, victims, point }) => {
      const way = await createHoldingWay(server.url)
      try {
        const { folder, startAgent, killRegistry } = await startInstall(name, way)
        const held = way.holdAt(point)
        const agent = await startAgent()
        await held
        // What sockets still hold is neither sent nor received; the point is where the install registry is.
        await until('the bytes to arrive', () => bytesIn(folder) > point - SLACK / 2, PATIENCE_SECONDS)
        if (victims.includes('agent')) {
          agent.kill('SIGKILL')
          await agent.exited
        }
        if (victims.includes('job')) killJobsBelow(join(dir, name))
        const isRegistry = victims.includes('registry')
        const lost = isRegistry ? await killRegistry() : 0
        if (victims.includes('agent')) await startAgent()
        if (victims.includes('job')) await retryFailed(name)
        way.letGo()
        const ended = await until(
          'the run to end',
          async () => {
            const found = await syncOf(name)
            // A registry that was away for longer than a job tries ends the job, not the sync.
            if (isRegistry && found?.step.status === 'failed') await retryFailed(name)
            const isOver = found?.step.status === 'failed' ? !isRegistry : found?.run.finishedAt !== null
            return isOver && found
          },
          PATIENCE_SECONDS,
        )
        if (ended.run.status !== 'succeeded')
          throw new Error(`the sync failed: ${ended.step.message}\n${await logOf(ended.step.jobId)}`)
        expect(way.bulkBytes()).toBeGreaterThan(SIZE)
        expect(way.bulkBytes()).toBeLessThan(SIZE + lost + SLACK)
        // A small upload that nobody could give back, since the registry was away, ends by its age.
        if (isRegistry) {
          const storage = await createFileStorage(folder)
          await collectGarbage(storage, { graceMs: 0, now: () => Date.now() + 1000 })
        }
        expect(temporaryIn(folder)).toEqual([])
        expect(corruptIn(folder)).toEqual([])
        expect(readdirSync(join(dir, name, 'sync', 'web'))).toEqual([])
      } finally {
        way.letGo()
        await way.close()
      }
    },
    600_000,
  )
})

/** The job's own program, found by the folder that it runs in; its launcher stays and tells how it ended. */
function killJobsBelow(folder: string): void {
  const jobs = readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => isJobOf(Number(pid), folder))
  if (jobs.length === 0) throw new Error(`no job runs below ${folder}`)
  for (const pid of jobs) process.kill(Number(pid), 'SIGKILL')
}

function isJobOf(pid: number, folder: string): boolean {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8')
    return (command[1] ?? '').endsWith('/job.mjs') && environment.includes(`TENON_JOB_URL=unix:${folder}`)
  } catch {
    return false
  }
}

/** Content that is not what its name says; all that the registry serves lies under its digest. */
function corruptIn(registry: string): string[] {
  const blobs = join(registry, 'blobs/sha256')
  const files = readdirSync(blobs, { recursive: true, encoding: 'utf8' }).filter((path) => path.includes('/'))
  if (files.length === 0) throw new Error('the registry holds nothing')
  return files.filter(
    (path) =>
      createHash('sha256')
        .update(readFileSync(join(blobs, path)))
        .digest('hex') !== path.split('/').at(-1),
  )
}

function temporaryIn(registry: string): string[] {
  return [...uploadsIn(registry), ...readdirSync(join(registry, 'tmp'))]
}

function bytesIn(registry: string): number {
  return uploadsIn(registry)
    .map((path) => statSync(join(registry, path), { throwIfNoEntry: false }))
    .reduce((sum, stat) => sum + (stat?.isFile() ? stat.size : 0), 0)
}

function uploadsIn(registry: string): string[] {
  return readdirSync(registry, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /uploads\/[^/]+/.test(path),
  )
}
