import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { ContractServer } from '../../testing/contract-server.ts'
import { bundleProgram } from '../docker/engines.testing.ts'
import { leftOf, loadImage, missingCluster, openCluster, testTool } from './cluster.testing.ts'
import type { TestCluster } from './cluster.testing.ts'
import { createKubernetesRuntime } from './kubernetes-runtime.ts'

const run = promisify(execFile)
const CHART = path.resolve(import.meta.dirname, '../../../../../charts/agent')
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
      const role = text.split('---').find((part) => /^kind: Role$/m.test(part)) ?? ''
      expect(role).toContain('namespace: work')
      expect(role).toMatch(/resources: \[secrets\]\s+verbs: \[create, delete\]/)
    })
  })
}

const hostAddress = process.env['TENON_KUBERNETES_HOST_IP']
const helm3 = testTool('helm3')
const helm4 = testTool('helm4')
const missing = missingCluster() ?? (helm3 && helm4 ? undefined : 'helm is not here')

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
    expect((await runtime.describe()).warnings).toEqual([])
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

  it.skipIf(!hostAddress)(
    'is installed, runs a job, passes its own test and goes',
    { timeout: 480_000 },
    async () => {
      const jobs = `${cluster.namespace}-jobs`
      const dist = path.join(cluster.dir, 'dist')
      await mkdir(dist)
      await bundleProgram('packages/agent/src/main.ts', path.join(dist, 'agent.mjs'))
      await bundleProgram('packages/plugins/src/job/main.ts', path.join(dist, 'job.mjs'))
      const agent = await loadImage(path.join(cluster.dir, 'a'), ['--image', 'agent', '--dist', dist])
      const job = await loadImage(path.join(cluster.dir, 'j'), ['--no-tools', '--dist', dist])
      const server = await ContractServer.start(hostAddress)
      await cluster.kubectl(
        '-n',
        cluster.namespace,
        'create',
        'secret',
        'generic',
        'join',
        `--from-literal=token=${server.joinToken}`,
      )
      // This cluster may have no DNS: jobs reach the agent by the address of its Service.
      const service =
        hostAddress?.replace(/\.\d+\.\d+$/, `.${128 + (process.pid % 60)}.${7 + (process.pid % 200)}`) ?? ''
      const settings = values({
        serverUrl: server.url,
        'image.reference': agent,
        'jobs.image': job,
        'jobs.namespace': jobs,
        'persistence.enabled': 'false',
        'jobApi.host': service,
        'jobApi.clusterIP': service,
      })
      await install(helm4, 'tenon', ...settings, '--wait', '--timeout', '120s')
      const patience = { timeout: 60_000, interval: 100 }
      await vi.waitFor(() => expect(server.sessions).toBe(1), patience)
      const base = server.manifest()
      server.assign({ ...base, limits: { ...base.limits, memoryBytes: 512e6 } })
      await vi.waitFor(() => expect(server.all('job.finished')).not.toHaveLength(0), patience)
      // The contract server's plugin is none that comes with the agent: the job program says so, over the job API.
      expect(server.all('job.finished')[0]?.report).toMatchObject({
        outcome: 'failed',
        message: expect.stringContaining('No plugin script'),
      })
      expect(await helm(helm4, 'test', 'tenon', '--timeout', '60s')).toMatch(/Phase:\s+Succeeded/)
      const left = () => leftOf({ ...cluster, namespace: jobs }, 'tenon-')
      await vi.waitFor(async () => expect(await left()).toEqual([]), patience)
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
