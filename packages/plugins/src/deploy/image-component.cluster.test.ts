import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createDeployWorld, type DeployWorld, type Given } from '../testing/deploy-world.ts'
import { kubeconfig, kubectl, pathWith, pushBusybox, whyNoCluster } from '../testing/kubernetes.ts'

vi.setConfig({ testTimeout: 180_000 })

const absent = whyNoCluster()
const MARKER = 'marker-secret-7be001'
/** The first process of a container does not by itself; its pod would stay for the whole grace period. */
const ENDS_WHEN_TOLD = 'trap "exit 0" TERM'

describe('an image as a component', () => {
  let deploys: DeployWorld
  const digest = `sha256:${'a'.repeat(64)}`

  beforeAll(async () => {
    deploys = await createDeployWorld({ types: ['container_image'] })
  }, 60_000)
  afterAll(() => deploys?.close())

  it('gives others its name in the install registry, and changes only with its digest', async () => {
    const given: Given = {
      type: 'container_image',
      config: {},
      artifact: { repository: 'apps/shop/redis', digest },
    }
    expect(await deploys.run('plan', given)).toMatchObject({ ok: true, data: { plan: { hasChanges: true } } })
    const done = await deploys.run('deploy', given)
    const host = new URL(deploys.registry.server.url).host
    expect(done.outputs?.['image']?.value).toEqual({
      registry: host,
      repository: `${host}/apps/shop/redis`,
      digest,
      tag: 'sha256-aaaaaaaaaaaaaaaa',
      reference: `${host}/apps/shop/redis@${digest}`,
    })
    expect(await deploys.run('plan', given)).toMatchObject({ data: { plan: { hasChanges: false } } })
    const other = { repository: 'apps/shop/redis', digest: `sha256:${'b'.repeat(64)}` }
    expect(await deploys.run('plan', { ...given, artifact: other })).toMatchObject({
      data: { plan: { hasChanges: true } },
    })
    expect((await deploys.run('destroy', given)).ok).toBe(true)
  })

  it('is asked of the policies, as whatever else runs is', async () => {
    const contents =
      '- deny: images.exists(i, i.contains("/redis@"))\n  message: component.name + " is redis"'
    const given: Given = {
      type: 'container_image',
      config: {},
      artifact: { repository: 'apps/shop/redis', digest },
      more: { policies: [{ name: 'no-redis', contents }] },
    }
    const planned = await deploys.run('plan', given)
    expect(planned).toMatchObject({ ok: false, data: { code: 'policy_denied', final: true } })
    expect(planned.message).toContain('no-redis: web is redis')
    const other = { repository: 'apps/shop/nginx', digest }
    expect(await deploys.run('plan', { ...given, artifact: other })).toMatchObject({ ok: true })
  })
})

describe.skipIf(absent)(`an image as a service on Kubernetes${absent ? ` (skipped: ${absent})` : ''}`, () => {
  let deploys: DeployWorld
  let given: Given
  const namespace = `service-${process.pid}`
  const succeeds = async (operation: 'deploy' | 'destroy', of: Given) =>
    expect(await deploys.run(operation, of)).toMatchObject({ ok: true })

  beforeAll(async () => {
    deploys = await createDeployWorld({
      types: ['docker_build'],
      kubeconfig: kubeconfig(),
      path: (world) => pathWith(world, { kubectl: 'kubectl' }),
    })
    const { world, registry } = deploys
    const digest = await pushBusybox(world, registry, 'apps/shop/api')
    given = {
      component: 'web_api',
      type: 'docker_build',
      artifact: { repository: 'apps/shop/api', digest },
      secrets: { key: MARKER },
      timeoutSeconds: 120,
      config: {
        service: {
          namespace,
          port: 8000,
          health_path: '/index.html',
          env: { KEY: '{{ .nuon.secrets.key }}' },
          command: [
            '/bin/sh',
            '-c',
            `${ENDS_WHEN_TOLD}; cd /tmp; echo "key \${#KEY}" > index.html; /bin/busybox httpd -f -p 8000 & wait`,
          ],
        },
      },
    }
  }, 120_000)
  afterAll(async () => {
    await kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--wait=false')
    await deploys?.close()
  })

  it('runs with its environment, is probed, and goes without a trace', async () => {
    const planned = await deploys.run('plan', given)
    expect(planned.message).toBe('3 to create.')
    const done = await deploys.run('deploy', given)
    expect(done).toMatchObject({ ok: true })
    expect(done.outputs).toMatchObject({ host: { value: `web-api.${namespace}.svc` }, port: { value: 8000 } })
    expect(planned.told + done.told + done.log).not.toContain(MARKER)
    const address = await kubectl(
      'get',
      'service',
      'web-api',
      '-n',
      namespace,
      '-o',
      'jsonpath={.spec.clusterIP}',
    )
    expect(await (await fetch(`http://${address}:8000/index.html`)).text()).toBe(`key ${MARKER.length}\n`)
    const changed = await deploys.run('plan', { ...given, secrets: { key: `${MARKER}-2` } })
    expect(changed.data).toMatchObject({ plan: { counts: { create: 0, update: 2, delete: 0 } } })
    expect(changed.told).not.toContain(MARKER)
    await succeeds('destroy', given)
    expect(await kubectl('get', 'namespace', namespace, '--ignore-not-found')).toBe('')
  }, 600_000)

  it('is not well while its own health probes fail, and says which', async () => {
    let isUp = false
    const server = createServer((_request, response) => response.writeHead(isUp ? 200 : 503).end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const url = `http://127.0.0.1:${port}/`
    const probes = [{ name: 'front', type: 'http' as const, url }]
    const health = { probes, blockDeploy: true, stabilizationSeconds: 1 }
    const probed = { ...given, more: { health }, timeoutSeconds: 60 }
    const failed = await deploys.run('deploy', probed)
    expect(failed).toMatchObject({ ok: false })
    expect(failed.message).toContain(`the probe front failed: ${url} answers 503`)
    isUp = true
    await succeeds('deploy', probed)
    await succeeds('destroy', given)
    await new Promise((resolve) => server.close(resolve))
  }, 600_000)

  it('waits for its namespace while that is going, and says for what', async () => {
    const hold = (finalizers: string[]) => {
      const patch = JSON.stringify({ metadata: { finalizers } })
      return kubectl('patch', 'configmap', 'held', '-n', namespace, '--type=merge', '-p', patch)
    }
    await kubectl('create', 'namespace', namespace)
    await kubectl('create', 'configmap', 'held', '-n', namespace)
    await hold(['tenon.dev/held'])
    await kubectl('delete', 'namespace', namespace, '--wait=false')
    const { job, api } = await deploys.start('deploy', given)
    const waits = () =>
      expect(job.output()).toMatch(/waiting: the namespace service-\d+ is going.*configmaps/)
    await vi.waitFor(waits, { timeout: 60_000, interval: 200 })
    await hold([])
    await job.ended
    expect(api.record.result).toMatchObject({ ok: true })
    await succeeds('destroy', given)
  }, 600_000)

  it('that crashes is told as crashed, though its probe hangs until it has given up', async () => {
    const server = createServer(() => undefined)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const probes = [{ name: 'front', type: 'http' as const, url: `http://127.0.0.1:${port}/` }]
    const health = { probes, blockDeploy: true, stabilizationSeconds: 1 }
    // Long enough to count as ready first: only then its own probes are asked.
    const command = ['/bin/sh', '-c', `${ENDS_WHEN_TOLD}; /bin/busybox sleep 7; echo it broke; exit 3`]
    const service = { namespace, port: 8000, command }
    const failed = await deploys.run('deploy', { ...given, config: { service }, more: { health } })
    expect(failed).toMatchObject({ ok: false })
    expect(failed.message).toMatch(/crashes .*ended with code 3.*its last words: it broke/s)
    await succeeds('destroy', given)
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }, 600_000)
})
