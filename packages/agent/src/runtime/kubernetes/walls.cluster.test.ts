import { createHash } from 'node:crypto'
import { readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { JobSpec, Runtime } from '../runtime.ts'
import { leftOf, missingCluster, openCluster } from './cluster.testing.ts'
import type { TestCluster } from './cluster.testing.ts'
import { jobName } from './job-manifest.ts'
import { createKubernetesRuntime } from './kubernetes-runtime.ts'
import type { KubernetesRuntimeOptions } from './kubernetes-runtime.ts'

const never = new AbortController().signal
const MEGABYTE = 1024 * 1024
const PARALLEL = 30
const KEY = 'walls-test'
const missing = missingCluster()

describe.skipIf(missing !== undefined)(`a pod of Kubernetes ${missing ?? ''}`, { timeout: 120_000 }, () => {
  let cluster: TestCluster
  const open = (more: Partial<KubernetesRuntimeOptions> = {}) =>
    createKubernetesRuntime({
      kubeconfig: cluster.kubeconfig,
      namespace: cluster.namespace,
      dir: path.join(cluster.dir, 'jobs'),
      log: pino({ level: 'silent' }),
      agentKey: KEY,
      image: cluster.image,
      ...more,
    })
  beforeAll(async () => {
    cluster = await openCluster('walls')
  })
  afterAll(() => cluster.close(), 120_000)

  it('is no root, has no rights, cannot write its root, and has its own places to write', async () => {
    const script = [
      'test "$(id -u)" -ge 1000000000 && echo a user of its own',
      'grep -E "Cap(Eff|Prm|Bnd)" /proc/self/status',
      'grep -E "NoNewPrivs|Seccomp:" /proc/self/status',
      'touch /bin/x 2>/dev/null || echo refused',
      'echo a >/tmp/x && cat /tmp/x && echo b >$TMPDIR/y && cat $TMPDIR/y',
      'ls /var/run/secrets/kubernetes.io 2>/dev/null || echo no service account',
    ].join('; ')
    const text = await printed(open(), jobSpec('walls', script))
    const rights = '(Cap...:\t0+\n){3}NoNewPrivs:\t1\nSeccomp:\t2\n'
    expect(text).toMatch(new RegExp(`^a user of its own\n${rights}refused\na\nb\nno service account\n$`))
  })

  it('has the service account of its role, and no other job has', async () => {
    await cluster.kubectl('-n', cluster.namespace, 'create', 'serviceaccount', 'cloud')
    const script = 'cut -c1-3 /var/run/secrets/kubernetes.io/serviceaccount/token'
    const text = await printed(open(), jobSpec('role', script, { serviceAccount: 'cloud' }))
    expect(text).toBe('eyJ\n')
  })

  it('sees what cluster and cloud tell its pod, and no credential that stands in its environment', async () => {
    const given = {
      AWS_ROLE_ARN: 'arn:aws:iam::1:role/deployer',
      AWS_WEB_IDENTITY_TOKEN_FILE: '/var/run/secrets/eks.amazonaws.com/serviceaccount/token',
      AZURE_CLIENT_ID: 'client',
      AWS_SECRET_ACCESS_KEY: 'very-secret',
      AWS_CONTAINER_AUTHORIZATION_TOKEN: 'very-secret',
      SOMETHING_ELSE: 'of-the-cluster',
    }
    const takeBack = await giveToPods(cluster, given)
    const text = await printed(open(), jobSpec('surroundings', 'env'))
    await takeBack()
    const seen = Object.fromEntries(text.split('\n').map((line) => line.split(/=(.*)/).slice(0, 2)))
    expect(seen).toMatchObject({
      AWS_ROLE_ARN: given.AWS_ROLE_ARN,
      AWS_WEB_IDENTITY_TOKEN_FILE: given.AWS_WEB_IDENTITY_TOKEN_FILE,
      AZURE_CLIENT_ID: given.AZURE_CLIENT_ID,
      KUBERNETES_SERVICE_HOST: expect.stringMatching(/\d/),
    })
    expect(text).not.toMatch(/very-secret|of-the-cluster/)
  })

  it('keeps its token out of what the cluster shows, and the secret is gone once it runs', async () => {
    const runtime = open()
    const spec = jobSpec('secret', 'cat token; sleep 1000', { files: { token: 'very-secret-token' } })
    await runtime.start(spec)
    const shown = await cluster.kubectl(
      '-n',
      cluster.namespace,
      'get',
      'jobs,pods,secrets,events',
      '-o',
      'yaml',
    )
    expect(shown).toContain(jobName(KEY, 'secret'))
    expect(shown).not.toContain('very-secret-token')
    expect(shown).not.toContain(Buffer.from('very-secret-token').toString('base64'))
    const container = ['-c', 'job', `job/${jobName(KEY, 'secret')}`]
    expect(await cluster.kubectl('-n', cluster.namespace, 'logs', ...container)).toBe('')
    expect(await leftOf(cluster, jobName(KEY, 'secret'))).not.toContainEqual(expect.stringMatching(/^Secret/))
    await runtime.remove(spec.jobId)
  })

  it('hands on more of any bytes than a kubelet keeps of a log', async () => {
    const runtime = open()
    const script = 'head -c 12000000 /dev/urandom >x; cat x; printf %s "$(sha256sum x | cut -c1-64)"'
    const spec = jobSpec('bytes', script)
    await runtime.start(spec)
    const chunks: Uint8Array[] = []
    for await (const bytes of runtime.logs(spec.jobId, 0, never)) chunks.push(Uint8Array.from(bytes))
    const log = Buffer.concat(chunks)
    expect(log.length).toBe(12_000_064)
    const sum = createHash('sha256').update(log.subarray(0, -64)).digest('hex')
    expect(log.subarray(-64).toString()).toBe(sum)
    await runtime.remove(spec.jobId)
  })

  it.each([
    ['imageless', { image: `127.0.0.1:9/tenon/job@sha256:${'0'.repeat(64)}` }, 'image', /127\.0\.0\.1:9/],
    ['nameless', { image: 'NOT a name' }, 'image', /InvalidImageName/],
    ['too large', { limits: { ...limits(), memoryBytes: 2 ** 45 } }, 'start', /Insufficient memory/],
    ['accountless', { serviceAccount: 'nobody' }, 'start', /nobody.* not found/],
  ])('is told in words within seconds when it cannot start: %s', async (name, more, reason, words) => {
    const runtime = open({ scheduleSeconds: 2 })
    const spec = jobSpec(name.replaceAll(' ', '-'), 'true', more)
    const before = Date.now()
    const failure = await runtime.start(spec).catch((error: unknown) => error)
    expect(failure).toMatchObject({ reason, message: expect.stringMatching(words) })
    expect(Date.now() - before).toBeLessThan(30_000)
    expect(await leftOf(cluster, jobName(KEY, spec.jobId))).toEqual([])
    expect(await runtime.attach(spec.jobId)).toBeUndefined()
  })

  it('is told in words when the quota of the namespace has no place for it', async () => {
    const inJobs = ['-n', cluster.namespace]
    await cluster.kubectl(...inJobs, 'create', 'quota', 'none', '--hard=pods=0')
    const failure = await open()
      .start(jobSpec('quota', 'true'))
      .catch((error: unknown) => error)
    await cluster.kubectl(...inJobs, 'delete', 'quota', 'none')
    expect(failure).toMatchObject({ reason: 'start', message: expect.stringContaining('exceeded quota') })
  })

  it('is told from a job that ended when somebody deletes it, and does not run twice', async () => {
    const runtime = open()
    const spec = jobSpec('deleted', 'trap "echo last words; exit 1" TERM; echo up; sleep 1000 & wait')
    await runtime.start(spec)
    const selector = `job-name=${jobName(KEY, spec.jobId)}`
    await cluster.kubectl('-n', cluster.namespace, 'delete', 'pod', '-l', selector, '--wait=false')
    expect(await runtime.wait(spec.jobId, never)).toMatchObject({
      reason: 'evicted',
      message: expect.anything(),
    })
    expect(await readLog(runtime, spec.jobId)).toBe('up\nlast words\n')
    const made = [
      '--field-selector',
      `reason=SuccessfulCreate,involvedObject.name=${jobName(KEY, spec.jobId)}`,
    ]
    const events = await cluster.kubectl('-n', cluster.namespace, 'get', 'events', ...made, '-o', 'name')
    expect(events.trim().split('\n')).toHaveLength(1)
    await runtime.remove(spec.jobId)
  })

  it(
    `runs ${PARALLEL} jobs at once beside hogs, and leaves nothing behind`,
    { timeout: 480_000 },
    async () => {
      const runtime = open({ scheduleSeconds: 240, workBytes: 4 * MEGABYTE })
      const before = await leftOf(cluster, '')
      const hogs = [
        jobSpec('hog-memory', 'exec tail /dev/zero'),
        jobSpec('hog-fork', 'f() { f | f & }; f 2>/dev/null; sleep 5; exit 3'),
        jobSpec('hog-cpu', 'while true; do :; done', { limits: { ...limits(), timeoutSeconds: 5 } }),
        // The kubelet measures disks once a minute, and evicts what is past its size.
        jobSpec('hog-disk', 'dd if=/dev/zero of=big bs=1M count=64 2>/dev/null; exec sleep 1000', {
          limits: { ...limits(), timeoutSeconds: 400 },
        }),
      ]
      const specs = Array.from({ length: PARALLEL }, (_, index) =>
        jobSpec(`many-${index}`, `echo "from ${index}"; sleep 0.5; exit ${index % 7}`),
      )
      await Promise.all(hogs.map((spec) => runtime.start(spec)))
      const ends = await Promise.all(
        specs.map(async (spec) => {
          await runtime.start(spec)
          const [text, exit] = await Promise.all([
            readLog(runtime, spec.jobId),
            runtime.wait(spec.jobId, never),
          ])
          return { text, exitCode: exit.exitCode }
        }),
      )
      expect(ends).toEqual(specs.map((_, index) => ({ text: `from ${index}\n`, exitCode: index % 7 })))
      const [memory, fork, cpu, disk] = await Promise.all(hogs.map(({ jobId }) => runtime.wait(jobId, never)))
      expect(disk).toMatchObject({ reason: 'evicted', message: expect.stringMatching(/emptyDir/i) })
      expect(memory).toMatchObject({ reason: 'oom' })
      expect(['exit', 'oom', 'timeout']).toContain(fork?.reason)
      expect(cpu).toMatchObject({ reason: 'timeout' })
      await Promise.all([...hogs, ...specs].map(({ jobId }) => runtime.remove(jobId)))
      expect(await leftOf(cluster, '')).toEqual(before)
      expect(await readdir(path.join(cluster.dir, 'jobs'))).toEqual([])
      expect(await runtime.list()).toEqual([])
    },
  )
})

/** As a cloud's webhook does: variables in every pod of the test's namespace. Answers what takes it back. */
async function giveToPods(cluster: TestCluster, given: Record<string, string>): Promise<() => Promise<void>> {
  const { namespace, kubectl } = cluster
  const env = Object.entries(given).map(
    ([name, value]) => `Object.spec.containers.env{name: '${name}', value: '${value}'}`,
  )
  const expression = `Object{spec: Object.spec{containers: object.spec.containers.map(c,
    Object.spec.containers{name: c.name, env: [${env.join(', ')}]})}}`
  const own = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingAdmissionPolicy',
    metadata: { name: namespace },
    spec: {
      matchConstraints: {
        resourceRules: [
          { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] },
        ],
      },
      reinvocationPolicy: 'Never',
      mutations: [{ patchType: 'ApplyConfiguration', applyConfiguration: { expression } }],
    },
  }
  const binding = {
    apiVersion: own.apiVersion,
    kind: 'MutatingAdmissionPolicyBinding',
    metadata: own.metadata,
    spec: {
      policyName: namespace,
      matchResources: { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } },
    },
  }
  const file = path.join(cluster.dir, 'webhook.json')
  await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [own, binding] }))
  await kubectl('apply', '-f', file)
  // A policy holds once the API server has read it: a dry run tells.
  const probe = ['-n', namespace, 'run', 'probe', '--image=none', '--dry-run=server', '-o', 'json']
  const isThere = async () => expect(await kubectl(...probe)).toContain('SOMETHING_ELSE')
  await vi.waitFor(isThere, { timeout: 30_000, interval: 200 })
  return async () => void (await kubectl('delete', '-f', file))
}

function limits(): JobSpec['limits'] {
  return { memoryBytes: 32 * MEGABYTE, cpus: 0.25, pids: 32, timeoutSeconds: 60, graceSeconds: 1 }
}

function jobSpec(jobId: string, script: string, more: Partial<JobSpec> = {}): JobSpec {
  return {
    jobId,
    fence: 1,
    command: ['/bin/sh', '-c', script],
    env: { PATH: '/usr/bin:/bin' },
    files: {},
    mounts: [],
    network: 'internal',
    limits: limits(),
    ...more,
  }
}

async function printed(runtime: Runtime, spec: JobSpec): Promise<string> {
  await runtime.start(spec)
  const text = await readLog(runtime, spec.jobId)
  await runtime.remove(spec.jobId)
  return text
}

async function readLog(runtime: Runtime, jobId: string): Promise<string> {
  let text = ''
  for await (const bytes of runtime.logs(jobId, 0, never)) text += Buffer.from(bytes).toString()
  return text
}
