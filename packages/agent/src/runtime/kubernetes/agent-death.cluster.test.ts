import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectTakenOver, runAgentUntilKilled, SURVIVOR } from '../agent-death.testing.ts'
import { leftOf, missingCluster, openCluster } from './cluster.testing.ts'
import type { TestCluster } from './cluster.testing.ts'
import { createKubernetesRuntime } from './kubernetes-runtime.ts'

const missing = missingCluster()

/** Each of its jobs holds until a command beside it opens its gate. */
const AGENT = `
import { createKubernetesRuntime } from '${import.meta.dirname}/kubernetes-runtime.ts'
${SURVIVOR}
const { jobs, fence, ...options } = JSON.parse(process.argv[2])
const runtime = createKubernetesRuntime({ ...options, log: quiet })
const command = ['/bin/sh', '-c', survivor('[ -e open ]')]
const limits = { memoryBytes: 32 << 20, cpus: 0.5, pids: 32, timeoutSeconds: 120, graceSeconds: 1 }
const common = { command, env: { PATH: '/bin' }, files: {}, network: 'internal', mounts: [], limits }
for (const jobId of jobs) void runtime.start({ jobId, fence, ...common }).then(() => tell(runtime, jobId))
`

describe.skipIf(missing !== undefined)(`an agent killed while ten pods run ${missing ?? ''}`, () => {
  let cluster: TestCluster
  beforeAll(async () => {
    cluster = await openCluster('death')
  })
  afterAll(() => cluster.close(), 120_000)

  it('leaves them to its successor, logs complete and without repeats', { timeout: 180_000 }, async () => {
    const { kubeconfig, namespace, image } = cluster
    const dir = path.join(cluster.dir, 'jobs')
    const options = { kubeconfig, namespace, image, dir, agentKey: 'death-test', scheduleSeconds: 60 }
    const before = await runAgentUntilKilled(cluster.dir, AGENT, options)
    const successor = createKubernetesRuntime({ ...options, log: pino({ level: 'silent' }) })
    const { signal } = new AbortController()
    await expectTakenOver(successor, before, async (jobId) => {
      const opened = await successor.exec(jobId, ['touch', 'open'], { tty: false, signal })
      // The job may end so soon after it that its end takes the command with it.
      await opened.exitCode.catch(() => undefined)
    })
    expect(await successor.list()).toEqual([])
    expect(await leftOf(cluster, 'tenon-')).toEqual([])
  })
})
