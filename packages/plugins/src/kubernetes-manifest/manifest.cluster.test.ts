import { ANNOTATIONS } from '@tenon/core'
import { packFolder, pushArtifact } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDeployWorld, installed, type DeployWorld, type Given } from '../testing/deploy-world.ts'
import { kubeconfig, kubectl, pathWith, pushBusybox, whyNoCluster } from '../testing/kubernetes.ts'

const absent = whyNoCluster()
const MARKER = 'marker-secret-51ab07'

const MANIFEST = `
apiVersion: v1
kind: Secret
metadata: { name: token }
stringData: { token: "{{ .nuon.secrets.token }}" }
---
apiVersion: v1
kind: Service
metadata: { name: api }
spec: { selector: { app: api }, ports: [{ port: 80 }] }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: api }
spec:
  selector: { matchLabels: { app: api } }
  template:
    metadata: { labels: { app: api } }
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{ name: main, image: "{{ .nuon.components.img.outputs.image.reference }}" }]
`
const CUSTOM = `
apiVersion: tenon.test/v1
kind: Widget
metadata: { name: one }
spec: { size: 3 }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: widgets.tenon.test }
spec:
  group: tenon.test
  scope: Namespaced
  names: { plural: widgets, singular: widget, kind: Widget }
  versions:
    - name: v1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
`

describe.skipIf(absent)(
  `the component type kubernetes_manifest${absent ? ` (skipped: ${absent})` : ''}`,
  () => {
    let deploys: DeployWorld
    let given: Given
    const namespace = `manifest-${process.pid}`

    beforeAll(async () => {
      deploys = await createDeployWorld({
        types: ['kubernetes_manifest'],
        kubeconfig: kubeconfig(),
        path: (world) => pathWith(world, { kubectl: 'kubectl' }),
      })
      const { world, registry } = deploys
      const image = {
        repository: 'apps/shop/img',
        digest: await pushBusybox(world, registry, 'apps/shop/img'),
      }
      const artifact = await pushManifests({ 'manifest.yaml': MANIFEST }, {})
      given = {
        type: 'kubernetes_manifest',
        artifact,
        secrets: { token: MARKER },
        timeoutSeconds: 120,
        config: { namespace, manifest: MANIFEST },
        more: { components: { img: installed('docker_build', image) } },
      }
    }, 120_000)
    afterAll(async () => {
      await kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--wait=false')
      await deploys?.close()
    })

    async function pushManifests(files: Record<string, string>, closure: Record<string, string>) {
      const { world, registry } = deploys
      const repository = 'apps/shop/web'
      const images = Object.entries(closure).map(([image, digest]) => ({ image, digest }))
      const { digest } = await pushArtifact({
        client: registry.client,
        repository,
        artifactType: MEDIA_TYPES.kubernetesManifest,
        layers: [{ mediaType: MEDIA_TYPES.folderLayer, bytes: await packFolder(await world.folder(files)) }],
        annotations: { [ANNOTATIONS.closure]: JSON.stringify(images) },
      })
      return { repository, digest }
    }
    const names = () => kubectl('get', 'service,deployment,secret', '-n', namespace, '-o', 'name')

    it('plans by what the cluster would make of it, applies that, and sees when somebody else changed it', async () => {
      const planned = await deploys.run('plan', given)
      expect(planned).toMatchObject({ ok: true, message: '3 to create.' })
      expect(planned.told).not.toContain(MARKER)
      const { digest } = planned.data['plan'] as { digest: string }
      const done = await deploys.run('deploy', { ...given, approvedPlan: digest })
      expect(done.message).toBe(`3 objects run in ${namespace}.`)
      expect(done.told).not.toContain(MARKER)
      expect(done.log).not.toContain(MARKER)
      expect(done.outputs?.['services']?.value).toMatchObject({ api: { host: `api.${namespace}.svc` } })
      const again = await deploys.run('plan', given)
      expect(again).toMatchObject({
        message: 'Nothing changes.',
        data: { plan: { hasChanges: false, healthy: true } },
      })
      expect(await deploys.run('deploy', { ...given, approvedPlan: digest })).toMatchObject({
        data: { code: 'plan_stale' },
      })
      await kubectl('patch', 'service', 'api', '-n', namespace, '-p', '{"spec":{"selector":{"app":"other"}}}')
      const drifted = await deploys.run('status', given)
      expect(drifted).toMatchObject({ ok: true, data: { isDrifted: true, healthy: true } })
      expect(JSON.stringify(drifted.data)).toContain(`Service ${namespace}/api`)
    }, 600_000)

    it('removes what it no longer wants, and makes kinds before what is of them', async () => {
      const rest = MANIFEST.slice(MANIFEST.indexOf('apiVersion: apps/v1'))
      const fewer = { ...given, config: { namespace, manifest: `${rest}---\n${CUSTOM}` } }
      const planned = await deploys.run('plan', fewer)
      expect(planned.data).toMatchObject({ plan: { counts: { create: 2, update: 0, delete: 2 } } })
      const done = await deploys.run('deploy', fewer)
      expect(done).toMatchObject({ ok: true })
      expect(await names()).not.toMatch(/service\/api|secret\/token/)
      expect(await kubectl('get', 'widget', 'one', '-n', namespace, '-o', 'jsonpath={.spec.size}')).toBe('3')
    }, 600_000)

    it('says in the words of the cluster what keeps it from becoming healthy', async () => {
      const manifest = MANIFEST.replace(
        'name: main,',
        'name: main, command: [/bin/sh, -c, "echo broken; exit 9"],',
      )
      const failed = await deploys.run('deploy', { ...given, config: { namespace, manifest } })
      expect(failed).toMatchObject({ ok: false, data: { state: 'failed' } })
      expect(failed.message).toMatch(/crashes .* ended with code 9.*broken/)
      const quota =
        'apiVersion: v1\nkind: ResourceQuota\nmetadata: { name: none }\nspec: { hard: { pods: "0" } }\n---\n'
      await kubectl('delete', 'deployment', 'api', '-n', namespace)
      const limited = { namespace, manifest: `${quota}${MANIFEST}` }
      const refused = await deploys.run('deploy', { ...given, config: limited })
      expect(refused.message).toMatch(/lets no pod of Deployment .* in: .*exceeded quota/)
    }, 600_000)

    it('renders a kustomization with the component’s own patches, images from the closure alone', async () => {
      const { world, registry } = deploys
      const digest = await pushBusybox(world, registry, 'apps/shop/web')
      const deployment = MANIFEST.slice(MANIFEST.indexOf('apiVersion: apps/v1')).replace(
        /image: "[^"]*"/,
        'image: tools/box',
      )
      const files = { 'base/app.yaml': deployment, 'base/kustomization.yaml': 'resources: [app.yaml]\n' }
      const patch = [
        'apiVersion: apps/v1',
        'kind: Deployment',
        'metadata: { name: api }',
        'spec: { replicas: "{{ .nuon.inputs.inputs.n }}" }',
      ].join('\n')
      const kustomize = { path: 'base', patches: [patch.replace(/"(\{\{.*\}\})"/, '$1')] }
      const open = {
        ...given,
        inputs: { n: 2 },
        config: { namespace, kustomize },
        artifact: await pushManifests(files, {}),
      }
      const outside = await deploys.run('deploy', open)
      expect(outside).toMatchObject({ data: { code: 'image_outside_closure', final: true } })
      const artifact = await pushManifests(files, { 'docker.io/tools/box:latest': digest })
      const done = await deploys.run('deploy', { ...open, artifact })
      expect(done).toMatchObject({ ok: true })
      const path = 'jsonpath={.spec.replicas} {..image}'
      const host = new URL(registry.server.url).host
      expect(await kubectl('get', 'deployment', 'api', '-n', namespace, '-o', path)).toBe(
        `2 ${host}/apps/shop/web@${digest}`,
      )
    }, 600_000)

    it('takes everything away in reverse, its namespace too', async () => {
      expect(await deploys.run('destroy', given)).toMatchObject({ ok: true })
      expect(await kubectl('get', 'namespace', namespace, '--ignore-not-found')).toBe('')
      expect(await kubectl('get', 'crd', 'widgets.tenon.test', '--ignore-not-found')).toBe('')
      expect(await deploys.run('destroy', given)).toMatchObject({
        ok: true,
        message: 'There was nothing to remove.',
      })
    }, 600_000)
  },
)
