import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packFolder, pushArtifact } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDeployWorld, type DeployWorld, type Given } from '../testing/deploy-world.ts'
import { accountOf, kubectl, pathWith, pushBusybox, whyNoCluster } from '../testing/kubernetes.ts'
import { until } from '../testing/programs.ts'

const absent = whyNoCluster('helm3')
const MARKER = 'marker-secret-1007c5'

it('an image that runs nothing says so when it is asked for its log', async () => {
  const deploys = await createDeployWorld({ types: ['container_image'] })
  const artifact = { repository: 'apps/shop/redis', digest: `sha256:${'a'.repeat(64)}` }
  for (const operation of ['logs', 'debug'] as const) {
    const end = await deploys.run(operation, { type: 'container_image', config: {}, artifact })
    expect(end.ok).toBe(false)
    expect(end.message).toContain('runs nothing itself')
  }
  await deploys.close()
}, 120_000)

describe.skipIf(absent)(`logs and debug on Kubernetes${absent ? ` (skipped: ${absent})` : ''}`, () => {
  let deploys: DeployWorld
  let given: Given
  let folder: string
  const namespace = `look-${process.pid}`

  // With the rights that the chart gives jobs: the ClusterRole `admin`, in the app's namespace alone.
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tenon-look-'))
    await kubectl('create', 'namespace', namespace)
    deploys = await createDeployWorld({
      types: ['docker_build', 'helm_chart'],
      kubeconfig: await accountOf(namespace, folder),
      path: (world) => pathWith(world, { kubectl: 'kubectl', helm: 'helm3' }),
    })
    const digest = await pushBusybox(deploys.world, deploys.registry, 'apps/shop/api')
    const command = ['/bin/sh', '-c', 'echo "it serves $KEY"; exec sleep 100000']
    given = {
      component: 'web_api',
      type: 'docker_build',
      artifact: { repository: 'apps/shop/api', digest },
      secrets: { key: MARKER },
      timeoutSeconds: 120,
      config: { service: { namespace, env: { KEY: '{{ .nuon.secrets.key }}' }, command } },
    }
    const done = await deploys.run('deploy', given)
    if (!done.ok) throw new Error(done.message)
  }, 300_000)
  afterAll(async () => {
    await deploys?.run('destroy', given)
    await kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--wait=false')
    await deploys?.close()
    await rm(folder, { recursive: true, force: true })
  }, 120_000)

  it('tell what a service wrote, with its secrets masked', async () => {
    const logs = await deploys.run('logs', given)
    expect(logs).toMatchObject({ ok: true, message: 'The log of one container.' })
    expect(logs.log).toMatch(/web-api-\S+ main: it serves \(sensitive\)/)
    expect(logs.log + logs.told).not.toContain(MARKER)
    const other = { tailLines: 1, follow: false, previous: false, container: 'none' }
    const nothing = await deploys.run('logs', { ...given, more: { logs: other } })
    expect(nothing.message).toBe('No container of web_api is in the cluster that is the container none.')
  }, 120_000)

  it('follow until they are told to stop', async () => {
    const more = { logs: { tailLines: 10, follow: true, previous: false } }
    const { job, api } = await deploys.start('logs', { ...given, more })
    await until('the log', () => job.output().includes('main: it serves'), 60)
    job.child.kill('SIGTERM')
    await job.ended
    expect(api.record.result).toMatchObject({ ok: false, data: { code: 'canceled' } })
  }, 180_000)

  it('run a command in a container, and say without one what the cluster knows', async () => {
    const command = ['/bin/sh', '-c', 'echo "I have $KEY"; exit 3']
    const asked = await deploys.run('debug', { ...given, more: { debug: { command } } })
    expect(asked).toMatchObject({ ok: false, data: { exitCode: 3, container: 'main' } })
    expect(asked.log).toContain('I have (sensitive)')
    expect(asked.log + asked.told).not.toContain(MARKER)
    const nowhere = { debug: { command, pod: 'no-such' } }
    const refused = await deploys.run('debug', { ...given, more: nowhere })
    expect(refused.message).toMatch(/No container no-such of web_api runs; there are: web-api-\S+\/main/)
    const look = await deploys.run('debug', given)
    expect(look).toMatchObject({ ok: true, message: '1 pod, and no trouble.' })
    expect(look.log).toMatch(/web-api-\S+: Running, 1 of 1 containers ready/)
  }, 180_000)

  it('work on a release of helm, with what is wrong in the words of the cluster', async () => {
    const chart = await pushChart(deploys)
    const release: Given = {
      component: 'talker',
      type: 'helm_chart',
      artifact: chart,
      timeoutSeconds: 60,
      config: { chart_name: 'talker', namespace, values: {} },
    }
    expect(await deploys.run('deploy', release)).toMatchObject({ ok: true })
    const look = await deploys.run('debug', release)
    expect(look.log).toContain('revision 1: deployed')
    expect(look).toMatchObject({ ok: true, message: '0 pods, and no trouble.' })
    expect((await deploys.run('logs', release)).message).toBe('No container of talker is in the cluster.')
    expect(await deploys.run('destroy', release)).toMatchObject({ ok: true })
    expect(await deploys.run('debug', release)).toMatchObject({
      ok: false,
      message: 'talker has nothing in the cluster.',
    })
  }, 300_000)
})

async function pushChart({ world, registry }: DeployWorld): Promise<{ repository: string; digest: string }> {
  const folder = await world.folder({
    'talker/Chart.yaml': 'apiVersion: v2\nname: talker\nversion: 1.0.0\n',
    'talker/templates/all.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: talker }\n',
  })
  const repository = 'apps/shop/talker'
  const { digest } = await pushArtifact({
    client: registry.client,
    repository,
    artifactType: MEDIA_TYPES.helmConfig,
    config: {
      mediaType: MEDIA_TYPES.helmConfig,
      bytes: Buffer.from('{"name":"talker","version":"1.0.0","apiVersion":"v2"}'),
    },
    layers: [{ mediaType: MEDIA_TYPES.helmChart, bytes: Buffer.from(await packFolder(folder)) }],
  })
  return { repository, digest }
}
