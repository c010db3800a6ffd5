import { mkdir, writeFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import type { NetworkMode } from '@tenon/core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { ContractServer } from '../../testing/contract-server.ts'
import { bundleProgram } from '../docker/engines.testing.ts'
import { hostAddress, installChartAgent, missingChartAgent } from './chart-agent.testing.ts'
import type { ChartAgent } from './chart-agent.testing.ts'
import { openCluster } from './cluster.testing.ts'
import type { TestCluster } from './cluster.testing.ts'
import { jobName } from './job-manifest.ts'

const PATIENCE = { timeout: 60_000, interval: 100 }
/** One that walls ought to let through, one of anybody's DNS, and one of anybody's API server. */
const PORTS = { web: 8080, dns: 53, api: 6443 }

/** What a program in the pod reaches by itself, and through the proxy that it finds. */
const PROBE = `const net = require('node:net'), http = require('node:http')
const straight = (host, port) => new Promise((done) => {
  const socket = net.connect({ host, port, timeout: 4000 })
  socket.on('connect', () => (socket.destroy(), done('reached')))
  for (const end of ['error', 'timeout']) socket.on(end, () => (socket.destroy(), done('closed')))
})
const proxied = (place) => new Promise((done) => {
  if (!process.env.HTTPS_PROXY) return done('no proxy')
  const { hostname: host, port } = new URL(process.env.HTTPS_PROXY)
  const request = http.request({ host, port, method: 'CONNECT', path: place })
  request.on('connect', (answer, socket) => (socket.destroy(), done(answer.statusCode)))
  request.on('error', () => done('broken')).end()
})
const look = async ([name, place]) => {
  const [host, port] = place.split(':')
  return [name, [await straight(host, port), await proxied(place)]]
}
Promise.all(Object.entries(JSON.parse(process.argv[1])).map(look))
  .then((found) => console.log(JSON.stringify(Object.fromEntries(found))))`

const missing = missingChartAgent()

describe.skipIf(missing !== undefined)(`jobs of the chart's agent ${missing ?? ''}`, () => {
  let cluster: TestCluster
  let server: ContractServer
  let agent: ChartAgent
  let registry: Listener
  let stray: Listener
  let places: Record<string, string>

  beforeAll(async () => {
    cluster = await openCluster('networks')
    const { namespace, dir, kubectl } = cluster
    server = await ContractServer.start(hostAddress)
    registry = await listen()
    stray = await listen()
    const [allowed, foreign] = [`${namespace}-allowed`, `${namespace}-foreign`]
    for (const each of [allowed, foreign]) await kubectl('create', 'namespace', each)
    const keyFile = path.join(dir, 'registry.key')
    await writeFile(keyFile, Buffer.alloc(32, 7).toString('base64url'), { mode: 0o600 })
    const dist = path.join(dir, 'dist')
    await mkdir(dist)
    await bundleProgram('packages/agent/src/main.ts', path.join(dist, 'agent.mjs'))
    await bundleProgram('packages/plugins/src/job/main.ts', path.join(dist, 'job.mjs'))
    agent = await installChartAgent({
      dir: path.join(dir, 'agent'),
      dist,
      namespace: `${namespace}-agent`,
      helm: 'helm3',
      server,
      registry: { url: `http://${registry.place}`, keyFile, nodeAddress: registry.place },
      jobs: { cluster: { namespaces: [allowed] } },
    })
    const [near, far] = [await target(cluster, agent, allowed), await target(cluster, agent, foreign)]
    const apiServer = await kubectl('get', 'service', 'kubernetes', '-o', 'jsonpath={.spec.clusterIP}')
    places = {
      jobApi: `tenon.${agent.namespace}.svc:8443`,
      registry: registry.place,
      apiServer: `${apiServer}:443`,
      allowed: `${near}:${PORTS.web}`,
      allowedByName: `target.${allowed}.svc:${PORTS.web}`,
      foreign: `${far}:${PORTS.web}`,
      foreignAsDns: `${far}:${PORTS.dns}`,
      foreignAsApiServer: `${far}:${PORTS.api}`,
      host: stray.place,
    }
    await server.session()
  }, 480_000)

  afterAll(async () => {
    await registry?.close()
    await stray?.close()
    await agent?.close()
    const own = ['allowed', 'foreign'].map((name) => `${cluster.namespace}-${name}`)
    await cluster?.kubectl('delete', 'namespace', ...own, '--wait=false')
    await server?.close()
    await cluster?.close()
  }, 240_000)

  /** The real program in its pod: it has its manifest, and waits for the registry's answer while we look around. */
  const reachedBy = async (mode: NetworkMode) => {
    const base = server.manifest({ network: { mode, names: [] } })
    const asked = registry.asked.length
    server.assign({ ...base, limits: { ...base.limits, memoryBytes: 512e6 } })
    await vi.waitFor(() => expect(registry.asked.length).toBeGreaterThan(asked), PATIENCE)
    const [, key] = /tenon.agent: "(\w+)"/.exec(await agent.helm('get', 'manifest', agent.release)) ?? []
    const job = `job/${jobName(key ?? '', base.jobId)}`
    const node = ['/usr/local/bin/node', '-e', PROBE, JSON.stringify(places)]
    const found = await cluster.kubectl('-n', agent.jobsNamespace, 'exec', job, '-c', 'job', '--', ...node)
    server.send({ type: 'job.cancel', jobId: base.jobId, fence: base.fence })
    await server.heard('job.finished', base.jobId)
    return JSON.parse(found) as Record<keyof typeof places, [straight: string, proxied: string | number]>
  }

  it('reach all that a pod reaches where their network is open, so that what follows is the walls’ doing', async () => {
    const found = await reachedBy('open')
    expect(found).toEqual(
      Object.fromEntries(Object.keys(places).map((name) => [name, ['reached', 'no proxy']])),
    )
  })

  it('reach the agent where their network is internal, the registry through it, and nothing else', async () => {
    // The API server of this cluster is on the node, which no policy walls off.
    const { apiServer: _, ...found } = await reachedBy('internal')
    expect(found).toEqual({
      jobApi: ['reached', 403],
      registry: ['closed', 200],
      allowed: ['closed', 403],
      allowedByName: ['closed', 403],
      foreign: ['closed', 403],
      foreignAsDns: ['closed', 403],
      foreignAsApiServer: ['closed', 403],
      host: ['closed', 403],
    })
  })

  it('reach the API server and the pods of the namespaces that the chart names where their network is cluster', async () => {
    expect(await reachedBy('cluster')).toEqual({
      jobApi: ['reached', 403],
      registry: ['closed', 200],
      apiServer: ['reached', 403],
      allowed: ['reached', 403],
      allowedByName: ['reached', 403],
      foreign: ['closed', 403],
      foreignAsDns: ['closed', 403],
      foreignAsApiServer: ['closed', 403],
      host: ['closed', 403],
    })
  })

  it('get the address of the API server from the cluster', async () => {
    const at = ['get', 'endpointslice', 'kubernetes', '-o', 'jsonpath={.endpoints[0].addresses[0]}']
    const address = await cluster.kubectl('-n', 'default', ...at)
    const policy = [
      'get',
      'networkpolicy',
      'tenon-cluster',
      '-o',
      'jsonpath={.spec.egress[*].to[*].ipBlock.cidr}',
    ]
    const cidrs = await cluster.kubectl('-n', agent.jobsNamespace, ...policy)
    expect(cidrs.split(' ')).toContain(`${address}/32`)
    expect(await agent.helm('get', 'notes', agent.release)).not.toContain('WARNING')
  })
})

/** A pod that answers on all of the ports, behind a Service for the first; its address. */
async function target(
  { kubectl, dir }: TestCluster,
  { jobImage }: ChartAgent,
  namespace: string,
): Promise<string> {
  const ports = Object.values(PORTS)
  const script = `for (const port of ${JSON.stringify(ports)}) require('node:net').createServer().listen(port)`
  const container = {
    name: 'target',
    image: jobImage,
    command: ['/usr/local/bin/node', '-e', script],
    securityContext: { runAsUser: 0 },
    readinessProbe: { tcpSocket: { port: PORTS.web }, periodSeconds: 1 },
  }
  const metadata = { name: 'target', namespace, labels: { app: 'target' } }
  const spec = { containers: [container], terminationGracePeriodSeconds: 0 }
  const service = { selector: metadata.labels, ports: [{ port: PORTS.web }] }
  const items = [
    { apiVersion: 'v1', kind: 'Pod', metadata, spec },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: service },
  ]
  const file = path.join(dir, `${namespace}.json`)
  await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
  await kubectl('apply', '-f', file)
  await kubectl('-n', namespace, 'wait', '--for=condition=Ready', 'pod/target', '--timeout=60s')
  return kubectl('-n', namespace, 'get', 'pod', 'target', '-o', 'jsonpath={.status.podIP}')
}

interface Listener {
  /** As pods would reach it. */
  place: string
  asked: string[]
  close(): Promise<void>
}

/** Something on the host that answers nobody. */
async function listen(): Promise<Listener> {
  const asked: string[] = []
  const listener = http.createServer((request) => void asked.push(request.url ?? ''))
  await new Promise<void>((resolve) => listener.listen(0, '0.0.0.0', resolve))
  return {
    place: `${hostAddress}:${(listener.address() as AddressInfo).port}`,
    asked,
    close: async () => {
      listener.closeAllConnections()
      await new Promise((resolve) => listener.close(resolve))
    },
  }
}
