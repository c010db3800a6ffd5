import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { bundleProgram } from '../docker/engines.testing.ts'
import { ContractServer } from '../../testing/contract-server.ts'
import { NO_CREDENTIAL, refuseCredentialsAfterDeath } from '../../testing/refuse-credentials.ts'
import { leftOf, loadImage, missingCluster, openCluster } from './cluster.testing.ts'
import type { TestCluster } from './cluster.testing.ts'

const hostAddress = process.env['TENON_KUBERNETES_HOST_IP']
const missing = missingCluster() ?? (hostAddress ? undefined : 'TENON_KUBERNETES_HOST_IP is not set')
const patience = { timeout: 90_000, interval: 100 }

describe.skipIf(missing !== undefined)(`the agent program on Kubernetes ${missing ?? ''}`, () => {
  let cluster: TestCluster
  let server: ContractServer
  let image: string
  beforeAll(async () => {
    cluster = await openCluster('program')
    const dist = path.join(cluster.dir, 'dist')
    await bundleProgram('packages/plugins/src/job/main.ts', path.join(dist, 'job.mjs'))
    image = await loadImage(cluster.dir, ['--no-tools', '--dist', dist])
    server = await ContractServer.start()
  }, 180_000)
  afterAll(async () => {
    await server.close()
    await cluster.close()
  }, 120_000)

  it('runs jobs that reach it over TLS, killed with -9 meanwhile', { timeout: 240_000 }, async () => {
    const agent = await bundleProgram('packages/agent/src/main.ts', path.join(cluster.dir, 'agent.mjs'))
    const port = await freePort()
    const start = () =>
      spawn(process.execPath, [agent, '--server', server.url, '--dir', path.join(cluster.dir, 'agent')], {
        env: {
          PATH: process.env['PATH'],
          KUBECONFIG: cluster.kubeconfig,
          TENON_JOIN_TOKEN: server.joinToken,
          TENON_RUNTIME: 'kubernetes',
          TENON_KUBERNETES_NAMESPACE: cluster.namespace,
          TENON_JOB_IMAGE: image,
          TENON_JOB_API_URL: `https://${hostAddress}:${port}`,
          TENON_JOB_API_LISTEN: `0.0.0.0:${port}`,
        },
        stdio: ['ignore', 'ignore', 'inherit'],
      })
    const first = start()
    await vi.waitFor(() => expect(server.sessions).toBe(1), patience)
    refuseCredentialsAfterDeath(server)
    const base = server.manifest()
    server.assign({ ...base, limits: { ...base.limits, memoryBytes: 512e6 } })
    await vi.waitFor(() => expect(server.all('job.started')).toHaveLength(1), patience)
    await killed(first, 'SIGKILL')
    const second = start()
    await vi.waitFor(() => expect(server.all('job.finished')).not.toHaveLength(0), patience)
    expect(server.all('job.finished')[0]?.report).toMatchObject({
      outcome: 'failed',
      message: expect.stringContaining(NO_CREDENTIAL),
    })
    await vi.waitFor(async () => expect(await leftOf(cluster, 'tenon-')).toEqual([]), patience)
    await killed(second, 'SIGTERM')
  })
})

async function freePort(): Promise<number> {
  const probe = net.createServer()
  await new Promise<void>((resolve) => probe.listen(0, '0.0.0.0', resolve))
  const { port } = probe.address() as net.AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

async function killed(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const gone = once(child, 'exit')
  child.kill(signal)
  await gone
}
