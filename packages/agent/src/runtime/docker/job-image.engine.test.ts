import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { JobManifest } from '@tenon/core'
import { serveJobApi } from '../../job-api/server.ts'
import type { JobApi } from '../../job-api/server.ts'
import { prepareSocket } from '../../job-api/socket-folder.ts'
import { buildJobSpec } from '../../jobs/spec.ts'
import { egressOf } from '../../testing/agent-config.ts'
import { ContractServer } from '../../testing/contract-server.ts'
import { NO_CREDENTIAL, refuseCredentialsAfterDeath } from '../../testing/refuse-credentials.ts'
import { createDockerRuntime } from './docker-runtime.ts'
import { createEngine } from './engine.ts'
import { buildTestImage, bundleProgram, missingFor, startEngine } from './engines.testing.ts'
import type { TestEngine } from './engines.testing.ts'

/** One engine is enough: what the image holds is the same for both. */
const missing = await missingFor('docker')
const log = pino({ level: 'silent' })
const patience = { timeout: 60_000, interval: 50 }
const never = new AbortController().signal

describe.skipIf(missing !== undefined)(
  `the job image on docker ${missing ?? ''}`,
  { timeout: 120_000 },
  () => {
    let world: TestEngine
    let image: string
    let api: JobApi | undefined

    beforeAll(async () => {
      world = await startEngine('docker')
      const dist = path.join(world.dir, 'dist')
      await bundleProgram('packages/plugins/src/job/main.ts', path.join(dist, 'job.mjs'))
      image = await world.load(await buildTestImage(world.dir, ['--no-tools', '--dist', dist]))
    }, 180_000)
    afterAll(async () => {
      await api?.close()
      await world.close()
    })

    it('runs the job program, which reaches the job API with its token and as its own user', async () => {
      const dir = path.join(world.dir, 'agent')
      await mkdir(dir)
      const runtime = createDockerRuntime({
        socketPaths: [world.socketPath],
        dir: path.join(dir, 'jobs'),
        log,
        agentKey: 'image-test',
        image,
      })
      const tokens: string[] = []
      const socket = await prepareSocket(dir, world.dir, runtime.traits.jobGroup)
      const authenticate = (token: string) => void tokens.push(token)
      api = await serveJobApi({ socket, jobGroup: runtime.traits.jobGroup, authenticate, log })
      // A second life of the agent finds the folder as the first one left it.
      expect(await prepareSocket(dir, world.dir, runtime.traits.jobGroup)).toBe(socket)

      const limits = { memoryBytes: 512 << 20, cpus: 1, pids: 64, timeoutSeconds: 60, graceSeconds: 1 }
      const network = { mode: 'internal', names: [] }
      const manifest = { jobId: 'real', fence: 1, kind: 'deploy', limits, network, operations: [] }
      const spec = buildJobSpec(manifest as unknown as JobManifest, 'a-token-of-twenty-characters', {
        node: process.execPath,
        programs: '/no/programs',
        apiSocket: socket,
        hostSocket: undefined,
        lentPaths: [],
        toolPaths: [],
        jobKubeconfig: undefined,
        egress: egressOf({}),
        agentDir: '/nowhere',
        isContainer: true,
        isFake: false,
      })
      await runtime.start({ ...spec, network: 'internal', ownNetwork: { env: {}, isDemanded: true } })
      let text = ''
      for await (const bytes of runtime.logs('real', 0, never)) text += Buffer.from(bytes).toString()
      expect(tokens).toContain('a-token-of-twenty-characters')
      expect(text).toContain('No running job has this token')
      expect(await runtime.wait('real', never)).toMatchObject({ reason: 'exit', exitCode: 1 })
      await runtime.remove('real')
    })

    it(
      'is what the agent program runs a job in, killed with -9 meanwhile',
      { timeout: 180_000 },
      async () => {
        const server = await ContractServer.start()
        const agent = await bundleProgram('packages/agent/src/main.ts', path.join(world.dir, 'agent.mjs'))
        const dir = path.join(world.dir, 'program')
        const start = () =>
          spawn(process.execPath, [agent, '--server', server.url, '--dir', dir], {
            env: {
              PATH: process.env['PATH'],
              TENON_JOIN_TOKEN: server.joinToken,
              TENON_RUNTIME: 'docker',
              TENON_DOCKER_SOCKET: world.socketPath,
              TENON_JOB_IMAGE: image,
            },
            stdio: ['ignore', 'ignore', 'inherit'],
          })
        const first = start()
        await vi.waitFor(() => expect(server.sessions).toBe(1), patience)
        refuseCredentialsAfterDeath(server)
        const base = server.manifest()
        const manifest = { ...base, limits: { ...base.limits, memoryBytes: 512e6 } }
        server.assign(manifest)
        await vi.waitFor(() => expect(server.all('job.started')).toHaveLength(1), patience)
        await killed(first, 'SIGKILL')
        const second = start()
        await vi.waitFor(() => expect(server.all('job.finished')).not.toHaveLength(0), patience)
        const report = server.all('job.finished')[0]?.report
        expect(report).toMatchObject({
          outcome: 'failed',
          message: expect.stringContaining(NO_CREDENTIAL),
        })
        const engine = createEngine([world.socketPath])
        await vi.waitFor(async () => expect(await engine.list('tenon.agent')).toEqual([]), patience)
        await killed(second, 'SIGTERM')
        await server.close()
      },
    )
  },
)

async function killed(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const gone = once(child, 'exit')
  child.kill(signal)
  await gone
}
