import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { ContractServer } from '../../testing/contract-server.ts'
import { bundleProgram } from '../docker/engines.testing.ts'
import { CHART, hostAddress, installChartAgent, missingChartAgent } from './chart-agent.testing.ts'
import { leftOf, missingCluster, openCluster, testTool } from './cluster.testing.ts'
import type { TestCluster } from './cluster.testing.ts'
import { createKubernetesRuntime } from './kubernetes-runtime.ts'

const run = promisify(execFile)
const DIGEST = `sha256:${'0'.repeat(64)}`
const never = new AbortController().signal
const values = (more: Record<string, string>) =>
  Object.entries({
    serverUrl: 'https://server.example',
    'joinToken.secretName': 'join',
    'image.reference': `registry.example/tenon/agent@${DIGEST}`,
    'jobs.image': `registry.example/tenon/job@${DIGEST}`,
    ...more,
  }).flatMap(([name, value]) => ['--set', `${name}=${value}`])

for (const name of ['helm3', 'helm4']) {
  const helm = testTool(name)
  describe.skipIf(helm === undefined)(`the chart by ${name} ${helm ? '' : '(not here)'}`, () => {
    const call = async (...args: string[]) => (await run(helm ?? name, args)).stdout

    it('is well formed, and says which values are missing', async () => {
      await call('lint', '--strict', CHART, ...values({}))
      await expect(call('template', 'x', CHART)).rejects.toThrow(/serverUrl/)
    })

    it('makes one agent at a time, with a disk that stays, and no rights outside of the jobs namespace', async () => {
      const accounts = { 'jobs.serviceAccounts.deploy': 'cloud', 'jobs.namespace': 'work' }
      const text = await call('template', 'x', CHART, ...values(accounts))
      expect(text).toContain('type: Recreate')
      expect(text).toContain('helm.sh/resource-policy: keep')
      expect(text).toContain('value: deploy=cloud')
      expect(text).not.toMatch(/kind: ClusterRole/)
      expect(text).not.toContain('-components')
      const role = text.split('---').find((part) => /^kind: Role$/m.test(part)) ?? ''
      expect(role).toContain('namespace: work')
      expect(role).toMatch(/resources: \[secrets\]\s+verbs: \[create, delete\]/)
    })

    it('has the agent trust the authorities of a ConfigMap, which its jobs get from it', async () => {
      const read = async (more: Record<string, string>) => call('template', 'x', CHART, ...values(more))
      expect(await read({})).not.toContain('authorities')
      const text = await read({ 'authorities.configMapName': 'proxy', 'authorities.key': 'root.pem' })
      expect(text).toContain('{ name: NODE_EXTRA_CA_CERTS, value: /var/run/tenon/authorities/ca.crt }')
      expect(text).toContain('mountPath: /var/run/tenon/authorities, readOnly: true')
      expect(text).toMatch(/configMap:\s+name: proxy\s+items:\s+- \{ key: root.pem, path: ca.crt \}/)
    })

    it('lets jobs that touch components into the namespaces that are named, and into no others', async () => {
      const open = { 'jobs.cluster.namespaces': '{shop,bank}', 'jobs.serviceAccounts.deploy': 'cloud' }
      const text = await call('template', 'x', CHART, ...values(open))
      const account = 'x-tenon-agent-components'
      const kinds = ['action', 'debug', 'deploy', 'destroy', 'logs', 'plan']
      const accounts = kinds.map((kind) => `${kind}=${kind === 'deploy' ? 'cloud' : account},`).join('')
      expect(text).toContain(`value: ${accounts}`)
      const bindings = text.split('---').filter((part) => part.includes('kind: ClusterRole\n'))
      expect(bindings.map((part) => /namespace: (\w+)/.exec(part)?.[1])).toEqual(['shop', 'bank'])
      expect(text).not.toContain('kind: ClusterRoleBinding')
    })

    it('binds jobs of the network cluster to its DNS, its API server and those namespaces; internal ones to the agent', async () => {
      const policies = async (more: Record<string, string>) => {
        const text = await call('template', 'x', CHART, ...values(more))
        const of = (mode: string) =>
          text.split('---').find((part) => part.includes(`name: x-tenon-agent-${mode}`))
        return { internal: of('internal') ?? '', cluster: of('cluster') ?? '' }
      }
      const { internal, cluster } = await policies({
        'jobs.cluster.namespaces': '{shop,bank}',
        'jobs.apiServerCidrs': '{10.0.0.10/32}',
        'jobs.dns.namespace': 'openshift-dns',
        'jobs.dns.podLabels.k8s-app': 'other',
        'jobs.dns.cidrs': '{10.9.9.9/32}',
        'jobs.dns.port': '5353',
      })
      expect(internal.match(/port: .+/g)).toEqual(['port: job-api, protocol: TCP }]'])
      expect(cluster.match(/cidr: [^ ]+/g)).toEqual(['cidr: 10.9.9.9/32', 'cidr: 10.0.0.10/32'])
      expect(cluster).toContain('kubernetes.io/metadata.name: openshift-dns')
      expect(cluster).toContain('matchLabels: {"k8s-app":"other"}')
      expect(cluster).toContain('{ port: 5353, protocol: UDP }')
      expect(cluster).toContain('values: ["shop","bank"]')
      expect((await policies({})).cluster).toContain('any address on these ports. Set jobs.apiServerCidrs.')
    })
  })
}

const helm3 = testTool('helm3')
const missing = missingCluster() ?? (helm3 ? undefined : 'helm is not here')

describe.skipIf(missing !== undefined)(`the chart's agent on a cluster ${missing ?? ''}`, () => {
  let cluster: TestCluster
  const helm = async (program: string | undefined, ...args: string[]) =>
    (await run(program ?? 'helm', [...args, '--kubeconfig', cluster.kubeconfig, '-n', cluster.namespace]))
      .stdout
  const installed = new Map<string, string | undefined>()
  const install = async (program: string | undefined, release: string, ...args: string[]) => {
    installed.set(release, program)
    await helm(program, 'install', release, CHART, ...args)
  }
  beforeAll(async () => {
    cluster = await openCluster('chart')
  }, 120_000)
  afterAll(async () => {
    for (const [release, program] of installed) await helm(program, 'uninstall', release, '--wait')
    await cluster.close()
  }, 120_000)

  it('can do what jobs need, and nothing else', { timeout: 120_000 }, async () => {
    const jobs = `${cluster.namespace}-rbac`
    await install(helm3, 'rbac', ...values({ 'jobs.namespace': jobs, 'persistence.enabled': 'false' }))
    const account = 'rbac-tenon-agent'
    const kubeconfig = await loginAs(cluster, account)
    await cluster.kubectl('-n', jobs, 'create', 'serviceaccount', 'cloud')
    await cluster.kubectl('-n', jobs, 'create', 'secret', 'generic', 'precious', '--from-literal=a=b')
    const asAgent = (...args: string[]) =>
      run(testTool('kubectl') ?? '', ['--kubeconfig', kubeconfig, ...args])
    const { namespace } = cluster
    const image = `--image=${cluster.image}`
    const forbidden: string[][] = [
      ['-n', jobs, 'create', 'deployment', 'x', image],
      ['-n', namespace, 'create', 'deployment', 'x', image],
      ['-n', jobs, 'get', 'secret', 'precious'],
      ['-n', jobs, 'get', 'secrets'],
      ['-n', namespace, 'get', 'secrets'],
      ['-n', 'kube-system', 'get', 'secrets'],
      [
        '-n',
        jobs,
        'create',
        'rolebinding',
        'x',
        '--clusterrole=admin',
        `--serviceaccount=${namespace}:${account}`,
      ],
      [
        'create',
        'clusterrolebinding',
        'x',
        '--clusterrole=admin',
        `--serviceaccount=${namespace}:${account}`,
      ],
      ['-n', jobs, 'create', 'role', 'x', '--verb=get', '--resource=secrets'],
      ['-n', jobs, 'create', 'token', 'cloud'],
      ['-n', jobs, 'get', 'pods', `--as=system:serviceaccount:${jobs}:cloud`],
      ['-n', jobs, 'create', 'serviceaccount', 'x'],
      ['-n', jobs, 'run', 'x', image, '--restart=Never'],
      ['-n', namespace, 'create', 'job', 'x', image],
      ['-n', namespace, 'exec', 'deployment/rbac-tenon-agent', '--', 'true'],
      ['-n', jobs, 'patch', 'secret', 'precious', '-p', '{}'],
      ['-n', jobs, 'delete', 'pod', 'x'],
      ['-n', jobs, 'delete', 'secrets', '--all'],
      ['get', 'nodes'],
      ['get', 'namespaces'],
    ]
    for (const args of forbidden) {
      const answer = await asAgent(...args).then(
        () => 'allowed',
        (error: { stderr: string }) => error.stderr,
      )
      expect(`${args.join(' ')}: ${answer}`).toMatch(/orbidden/)
    }
    const runtime = createKubernetesRuntime({
      kubeconfig,
      namespace: jobs,
      dir: path.join(cluster.dir, 'jobs'),
      log: pino({ level: 'silent' }),
      agentKey: 'chart-test',
      image: cluster.image,
    })
    const described = await runtime.describe()
    expect(described.warnings).toEqual([
      expect.stringMatching(/egress reach whatever a pod reaches/),
      expect.stringMatching(/enforces/),
    ])
    expect(described.confinement).toContain(`made as system:serviceaccount:${cluster.namespace}:${account};`)
    await runtime.start({
      jobId: 'allowed',
      fence: 1,
      command: ['/bin/sh', '-c', 'cat token; exec sleep 1000'],
      env: { PATH: '/bin' },
      files: { token: 'a token' },
      mounts: [],
      network: 'egress',
      limits: { memoryBytes: 32 << 20, cpus: 0.5, pids: 32, timeoutSeconds: 60, graceSeconds: 1 },
    })
    await runtime.stop('allowed', 5, 'canceled')
    expect(await runtime.wait('allowed', never)).toMatchObject({ reason: 'canceled' })
    let text = ''
    for await (const bytes of runtime.logs('allowed', 0, never)) text += Buffer.from(bytes).toString()
    expect(text).toContain('a token')
    await runtime.remove('allowed')
  })

  it.skipIf(missingChartAgent() !== undefined)(
    'is installed, runs a job, passes its own test and goes',
    { timeout: 480_000 },
    async () => {
      const dist = path.join(cluster.dir, 'dist')
      await mkdir(dist)
      await bundleProgram('packages/agent/src/main.ts', path.join(dist, 'agent.mjs'))
      await bundleProgram('packages/plugins/src/job/main.ts', path.join(dist, 'job.mjs'))
      const server = await ContractServer.start(hostAddress)
      const namespace = `${cluster.namespace}-agent`
      const agent = await installChartAgent({
        dir: path.join(cluster.dir, 'agent'),
        dist,
        namespace,
        helm: 'helm4',
        server,
      })
      const patience = { timeout: 60_000, interval: 100 }
      await vi.waitFor(() => expect(server.sessions).toBe(1), patience)
      const base = server.manifest()
      server.assign({ ...base, limits: { ...base.limits, memoryBytes: 512e6 } })
      // Over the job API the program has read its manifest, and asks for the way to the plugin that it names.
      const { requestId } = await server.heard('credential.request')
      server.send({ type: 'credential.refused', requestId, message: 'no way for this test' })
      await vi.waitFor(() => expect(server.all('job.finished')).not.toHaveLength(0), patience)
      expect(server.all('job.finished')[0]?.report).toMatchObject({
        outcome: 'failed',
        message: expect.stringContaining('no way for this test'),
      })
      expect(await agent.helm('test', agent.release, '--timeout', '60s')).toMatch(/Phase:\s+Succeeded/)
      const left = () => leftOf({ ...cluster, namespace: agent.jobsNamespace }, 'tenon-')
      await vi.waitFor(async () => expect(await left()).toEqual([]), patience)
      await agent.close()
      await server.close()
    },
  )
})

/** A kubeconfig with a token of the service account, and nothing of the administrator's. */
async function loginAs(cluster: TestCluster, account: string): Promise<string> {
  const token = await cluster.kubectl('-n', cluster.namespace, 'create', 'token', account)
  const admin = JSON.parse(await cluster.kubectl('config', 'view', '--raw', '-o', 'json')) as {
    clusters: { cluster: object }[]
  }
  const file = path.join(cluster.dir, 'agent.kubeconfig')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'agent',
    clusters: [{ name: 'here', cluster: admin.clusters[0]?.cluster }],
    users: [{ name: 'agent', user: { token: token.trim() } }],
    contexts: [{ name: 'agent', context: { cluster: 'here', user: 'agent' } }],
  }
  await writeFile(file, JSON.stringify(config), { mode: 0o600 })
  expect(existsSync(file) && (await readFile(file, 'utf8'))).not.toContain('client-key')
  return file
}
