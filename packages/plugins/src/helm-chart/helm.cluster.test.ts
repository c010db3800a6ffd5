import { join } from 'node:path'
import { ANNOTATIONS, type Json } from '@tenon/core'
import { packFolder, pushArtifact } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDeployWorld, installed, type DeployWorld, type Given } from '../testing/deploy-world.ts'
import { helm, kubeconfig, kubectl, pathWith, pushBusybox, whyNoCluster } from '../testing/kubernetes.ts'

const MARKER = 'marker-secret-9c1d22'
const DEPLOYMENT = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  labels: { version: "{{ .Values.image.tag }}" }
spec:
  replicas: {{ .Values.replicas }}
  progressDeadlineSeconds: {{ .Values.deadline | default 300 }}
  selector: { matchLabels: { app: {{ .Release.Name }} } }
  template:
    metadata: { labels: { app: {{ .Release.Name }} } }
    spec:
      terminationGracePeriodSeconds: 0
      {{- if .Values.extra }}
      initContainers: [{ name: init, image: "{{ .Values.extra }}", command: [/bin/busybox, "true"] }]
      {{- end }}
      containers:
        - name: main
          image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
          command: [/bin/sh, -c, {{ .Values.command | default "exec sleep 100000" | quote }}]
          envFrom: [{ secretRef: { name: {{ .Release.Name }} } }]
          {{- if .Values.probe }}
          readinessProbe: { exec: { command: [/bin/sh, -c, {{ .Values.probe | quote }}] }, periodSeconds: 1 }
          {{- end }}
`
const REST = `
apiVersion: v1
kind: Secret
metadata: { name: {{ .Release.Name }} }
stringData: { password: {{ .Values.password | quote }}, endpoint: "{{ .Values.endpoint }}" }
---
apiVersion: v1
kind: Service
metadata: { name: {{ .Release.Name }} }
spec: { selector: { app: {{ .Release.Name }} }, ports: [{ port: 80 }] }
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations: { helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: "before-hook-creation" }
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{ name: hook, image: "tools/busybox:1", command: [/bin/sh, -c, "echo {{ .Values.hook | default "fine" }}; exit {{ .Values.hookCode | default 0 }}"] }]
`

// Beside each other: they share nothing, and mostly wait for the kubelet.
describe.concurrent.each(['helm3', 'helm4'])('the component type helm_chart with %s', (tool) => {
  const absent = whyNoCluster(tool)
  const steps = { concurrent: false, skip: absent !== undefined }
  describe(`on a real cluster${absent ? ` (skipped: ${absent})` : ''}`, steps, () => {
    let deploys: DeployWorld
    let image: { repository: string; digest: string }
    let given: Given
    let pushChart: (crds: string) => Promise<{ repository: string; digest: string }>
    const namespace = `${tool}-${process.pid}`

    beforeAll(async () => {
      deploys = await createDeployWorld({
        types: ['helm_chart'],
        kubeconfig: kubeconfig(),
        path: (world) => pathWith(world, { helm: tool, kubectl: 'kubectl' }),
      })
      const { world, registry } = deploys
      image = { repository: 'apps/shop/api', digest: await pushBusybox(world, registry, 'apps/shop/api') }
      const repository = 'apps/shop/web'
      const closed = await pushBusybox(world, registry, repository)
      pushChart = async (crds) => {
        const folder = await world.folder({
          'shop/Chart.yaml': 'apiVersion: v2\nname: shop\nversion: 1.2.3\nappVersion: "7"\n',
          'shop/values.yaml': 'replicas: 1\n',
          'shop/templates/deployment.yaml': DEPLOYMENT,
          'shop/templates/rest.yaml': REST,
          'shop/crds/thing.yaml': crds,
        })
        const { digest } = await pushArtifact({
          client: registry.client,
          repository,
          artifactType: MEDIA_TYPES.helmConfig,
          config: { mediaType: MEDIA_TYPES.helmConfig, bytes: Buffer.from('{}') },
          layers: [{ mediaType: MEDIA_TYPES.helmChart, bytes: await packFolder(folder) }],
          annotations: {
            [ANNOTATIONS.closure]: JSON.stringify([{ image: 'tools/busybox:1', digest: closed }]),
          },
        })
        return { repository, digest }
      }
      deploys.outputs['infra'] = { endpoint: { sensitive: false, value: 'db.internal:5432' } }
      given = {
        type: 'helm_chart',
        artifact: await pushChart(CRD),
        secrets: { password: MARKER },
        timeoutSeconds: 150,
        config: {
          chart_name: 'shop',
          namespace,
          values: {
            'image.repository': '{{ .nuon.components.api.outputs.image.repository }}',
            'image.tag': '{{ .nuon.components.api.outputs.image.tag }}',
            password: '{{ .nuon.secrets.password }}',
          },
          values_file: [{ contents: 'endpoint: "{{ .nuon.components.infra.outputs.endpoint }}"\n' }],
        },
        more: {
          dependencies: ['infra', 'api'],
          components: {
            api: installed('container_image', image),
            infra: installed('terraform_module', image),
          },
        },
      }
    }, 120_000)
    afterAll(async () => {
      await kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--wait=false')
      await deploys?.close()
    })

    const withValues = (values: { [key: string]: Json }, more: Partial<Given> = {}): Given => {
      const config = { ...given.config, values: { ...(given.config['values'] as object), ...values } }
      return { ...given, config, ...more }
    }
    const deployed = (path: string) =>
      kubectl('get', 'deployment', 'shop', '-n', namespace, '-o', `jsonpath=${path}`)

    it('shows what a first install makes, refuses an image that did not come along, then installs the plan', async () => {
      const outside = await deploys.run('plan', withValues({ extra: 'docker.io/library/nginx:1' }))
      expect(outside).toMatchObject({ ok: false, data: { code: 'image_outside_closure', final: true } })
      expect(outside.message).toContain(
        'docker.io/library/nginx:1 at Deployment shop spec.template.spec.initContainers[0].image',
      )
      const planned = await deploys.run('plan', given)
      expect(planned).toMatchObject({ ok: true, message: '5 to create.' })
      expect(planned.told).not.toContain(MARKER)
      const { digest } = planned.data['plan'] as { digest: string }
      const done = await deploys.run('deploy', { ...given, approvedPlan: digest })
      expect(done.message).toBe(`Revision 1 of shop runs in ${namespace}.`)
      expect(done.told).not.toContain(MARKER)
      expect(done.log).not.toContain(MARKER)
      expect(done.outputs).toMatchObject({
        revision: { value: 1 },
        namespace: { value: namespace },
        services: { value: { shop: { host: `shop.${namespace}.svc` } } },
      })
      const host = new URL(deploys.registry.server.url).host
      expect(await deployed('{..image}')).toBe(`${host}/${image.repository}@${image.digest}`)
      const hook = await kubectl('get', 'job', 'shop-hook', '-n', namespace, '-o', 'jsonpath={..image}')
      expect(hook).toBe(`${host}/apps/shop/web@${await closedDigest(deploys, given)}`)
      const secret = await kubectl('get', 'secret', 'shop', '-n', namespace, '-o', 'jsonpath={.data}')
      const data = JSON.parse(secret) as Record<string, string>
      expect(Buffer.from(data['password'] ?? '', 'base64').toString()).toBe(MARKER)
      expect(Buffer.from(data['endpoint'] ?? '', 'base64').toString()).toBe('db.internal:5432')
      const again = await deploys.run('plan', given)
      expect(again).toMatchObject({
        message: 'Nothing changes.',
        data: { plan: { hasChanges: false, healthy: true } },
      })
      expect(await deploys.run('status', given)).toMatchObject({
        ok: true,
        data: { healthy: true, revision: 1 },
      })
    }, 600_000)

    it('shows a hook that changes, and what lies in crds/, to people and to policies', async () => {
      const hook = await deploys.run('plan', withValues({ hook: 'another' }))
      expect(hook.data).toMatchObject({ plan: { hasChanges: true, changes: [{ address: 'Job shop-hook' }] } })
      const hidden = (image: string) => `${CRD}---
apiVersion: apps/v1
kind: Deployment
metadata: { name: hidden }
spec:
  selector: { matchLabels: { app: hidden } }
  template:
    metadata: { labels: { app: hidden } }
    spec: { containers: [{ name: main, image: "${image}" }] }
`
      const foreign = await pushChart(hidden('docker.io/library/nginx:1'))
      const outside = await deploys.run('plan', { ...given, artifact: foreign })
      expect(outside).toMatchObject({ ok: false, data: { code: 'image_outside_closure' } })
      const contents = '- each: resources\n  deny: it.metadata.name == "hidden"'
      const denied = await deploys.run('plan', {
        ...given,
        artifact: await pushChart(hidden('tools/busybox:1')),
        more: { ...given.more, policies: [{ name: 'open', contents }] },
      })
      expect(denied).toMatchObject({ ok: false, data: { code: 'policy_denied' } })
    }, 600_000)

    it('upgrades by what changed, and refuses a plan made for something else', async () => {
      const two = withValues({ replicas: '2' })
      const planned = await deploys.run('plan', two)
      expect(planned.data).toMatchObject({
        plan: {
          counts: { create: 0, update: 1, delete: 0 },
          changes: [
            {
              address: 'Deployment shop',
              before: { spec: { replicas: 1 } },
              after: { spec: { replicas: 2 } },
            },
          ],
        },
      })
      expect((await deploys.run('deploy', two)).message).toContain('Revision 2')
      expect(await deployed('{.status.readyReplicas}')).toBe('2')
      const { digest } = planned.data['plan'] as { digest: string }
      const stale = await deploys.run('deploy', { ...two, approvedPlan: digest })
      expect(stale).toMatchObject({ ok: false, data: { code: 'plan_stale', final: true } })
    }, 600_000)

    it('rolls a crashing upgrade back, and says why in the words of the container', async () => {
      const crash = withValues({ replicas: '1', command: 'echo cannot open the database; exit 3' })
      const failed = await deploys.run('deploy', crash)
      expect(failed).toMatchObject({ ok: false, data: { state: 'rolled-back' } })
      expect(failed.message).toMatch(/rolled back to revision 2, which runs/)
      expect(failed.message).toMatch(/crashes .* ended with code 3.*cannot open the database/)
      expect(failed.told).not.toContain(MARKER)
      expect(await deployed('{.status.readyReplicas}')).toBe('2')
    }, 600_000)

    it('names the image, the probe or the hook that keeps it from becoming healthy', async () => {
      const gone = { repository: 'apps/shop/gone', digest: `sha256:${'1'.repeat(64)}` }
      const more = {
        ...given.more,
        components: { ...given.more?.components, api: installed('docker_build', gone) },
      }
      const image = await deploys.run('deploy', withValues({ replicas: '1' }, { more }))
      expect(image.message).toMatch(/cannot have the image .*apps\/shop\/gone@sha256:1+ \(\w+\)/)
      const probe = await deploys.run('deploy', withValues({ probe: 'echo not yet; exit 1', deadline: '10' }))
      expect(probe.message).toMatch(/is not ready, its container main: Readiness probe failed: not yet/)
      const hook = await deploys.run('deploy', withValues({ hookCode: '4', hook: 'no-migration' }))
      expect(hook.message).toMatch(/Job .*shop-hook failed/)
      expect(await deployed('{.spec.replicas}')).toBe('2')
    }, 600_000)

    it('recovers a release that an operation left half done', async () => {
      const [record] = (
        await kubectl('get', 'secret', '-n', namespace, '-l', 'owner=helm,status=deployed', '-o', 'name')
      ).split('\n')
      expect(record).toBeDefined()
      const last = JSON.parse(await helm(tool, 'history', 'shop', '-n', namespace, '-o', 'json')) as {
        revision: number
      }[]
      await strand(namespace, last.at(-1)?.revision ?? 0)
      const planned = await deploys.run('plan', withValues({ replicas: '1' }))
      expect(planned).toMatchObject({ ok: true, data: { plan: { healthy: false, hasChanges: true } } })
      expect(planned.message).toContain('is left in pending-upgrade; the deploy recovers it first')
      const done = await deploys.run('deploy', withValues({ replicas: '1' }))
      expect(done).toMatchObject({ ok: true })
      expect(done.message).toMatch(/was left in pending-upgrade by an earlier operation; it was rolled back/)
      expect(await deployed('{.spec.replicas}')).toBe('1')
    }, 600_000)

    it('is gone after destroy, with its namespace, and once more is fine', async () => {
      expect(await deploys.run('destroy', given)).toMatchObject({ ok: true, message: 'Uninstalled shop.' })
      expect(await kubectl('get', 'namespace', namespace, '--ignore-not-found')).toBe('')
      expect(await deploys.run('destroy', given)).toMatchObject({ ok: true })
      const failed = await deploys.run('deploy', withValues({ hookCode: '4' }))
      expect(failed).toMatchObject({ ok: false, data: { state: 'removed' } })
      expect(await helm(tool, 'list', ...(tool === 'helm3' ? ['-a'] : []), '-n', namespace, '-q')).toBe('')
      expect((await deploys.run('destroy', given)).ok).toBe(true)
    }, 600_000)
  })
})

const CRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: things.tenon.test }
spec:
  group: tenon.test
  scope: Namespaced
  names: { plural: things, singular: thing, kind: Thing }
  versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object } } }]
`

async function closedDigest({ registry }: DeployWorld, given: Given): Promise<string> {
  const { repository, digest } = given.artifact!
  const { bytes } = await registry.client.getManifest(repository, digest as `sha256:${string}`)
  const { annotations } = JSON.parse(Buffer.from(bytes).toString()) as { annotations: Record<string, string> }
  return (JSON.parse(annotations[ANNOTATIONS.closure] ?? '[]') as { digest: string }[])[0]?.digest ?? ''
}

/** As an upgrade that was killed leaves it: a newer revision, pending, and nobody to finish it. */
async function strand(namespace: string, revision: number): Promise<void> {
  const name = `sh.helm.release.v1.shop.v${revision}`
  const secret = JSON.parse(await kubectl('get', 'secret', name, '-n', namespace, '-o', 'json')) as {
    metadata: { name: string; labels: Record<string, string>; [key: string]: unknown }
    data: { release: string }
  }
  const { gunzipSync, gzipSync } = await import('node:zlib')
  const twice = Buffer.from(Buffer.from(secret.data.release, 'base64').toString(), 'base64')
  const release = JSON.parse(gunzipSync(twice).toString()) as { version: number; info: { status: string } }
  release.version = revision + 1
  release.info.status = 'pending-upgrade'
  const packed = Buffer.from(gzipSync(JSON.stringify(release)).toString('base64')).toString('base64')
  const next = {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'helm.sh/release.v1',
    metadata: {
      name: `sh.helm.release.v1.shop.v${revision + 1}`,
      namespace,
      labels: { ...secret.metadata.labels, status: 'pending-upgrade', version: String(revision + 1) },
    },
    data: { release: packed },
  }
  const { writeFile, rm, mkdtemp } = await import('node:fs/promises')
  const folder = await mkdtemp(join(process.env['TMPDIR'] ?? '/tmp', 'tenon-strand-'))
  await writeFile(join(folder, 'secret.json'), JSON.stringify(next))
  await kubectl('apply', '-f', join(folder, 'secret.json'))
  await rm(folder, { recursive: true })
}
