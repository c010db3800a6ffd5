import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServiceSpec } from '@tenon/protocol'
import type { NetworkLimits } from '../egress/network.ts'
import type { Services } from '../runtime/services.ts'
import { ApiWorld, type ApiJob } from '../testing/api-world.ts'
import { createServiceAccess, imageOf } from './service-access.ts'

let world: ApiWorld
let job: ApiJob

beforeAll(async () => {
  world = await ApiWorld.create()
  await world.start()
  job = await world.job({ kind: 'deploy' })
})
afterAll(() => world.close())

describe('a service of a component', () => {
  it('is refused by an agent without an engine, with what to do about it', async () => {
    const { status, body } = await world.call(job, 'GET', '/v1/service')
    expect(status).toBe(501)
    expect(body.error).toMatchObject({
      code: 'unsupported',
      remedy: expect.stringContaining('TENON_RUNTIME=docker'),
    })
  })

  it('is changed only by jobs of the kind for it', async () => {
    const { operations } = world.server.manifest({ kind: 'plan' }, { untilReleased: true })
    const planning = await world.job({ kind: 'plan', operations })
    for (const [method, path] of [
      ['PUT', '/v1/service'],
      ['POST', '/v1/service/settle'],
      ['DELETE', '/v1/service'],
    ] as const) {
      const { status, body } = await world.call(planning, method, path)
      expect([method, status, body.error?.code]).toEqual([method, 403, 'forbidden'])
    }
    expect((await world.call(job, 'DELETE', '/v1/service')).status).toBe(403)
  })

  it('is that of a component which the manifest names', async () => {
    const { status, body } = await world.call(job, 'PUT', '/v1/service?component=other', { body: '{}' })
    expect(status).toBe(403)
    expect(body.error?.message).toBe('This job has nothing to do with other.')
  })

  it('is not brought up by a deploy that the customer keeps out of the engine’s network, and nothing is started', async () => {
    const digest = `sha256:${'a'.repeat(64)}`
    const [operation] = job.manifest.operations
    const artifacts = [{ name: 'artifact', repository: 'apps/shop/web', digest }]
    const manifest = { ...job.manifest, operations: [{ ...operation!, component: 'web', artifacts }] }
    const brought: string[] = []
    const bring: Services['bring'] = async (component) => {
      brought.push(component)
      return { host: component, current: null, next: null, changed: true }
    }
    const services = { bring } as Services
    const registry = { url: 'http://127.0.0.1:5000', keyFile: '/key' }
    const spec = { command: [], replicas: 1, env: {}, secrets: {} } as unknown as ServiceSpec
    const access = (limits: NetworkLimits) => createServiceAccess({ services, registry, limits }, manifest)
    await expect(access({ deploy: 'internal' }).bring('web', spec)).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining('TENON_JOB_NETWORKS has deploy=internal'),
      remedy: expect.stringContaining('take deploy out of TENON_JOB_NETWORKS'),
    })
    expect(brought).toEqual([])
    await access({ deploy: 'egress', action: 'internal' }).bring('web', spec)
    expect(brought).toEqual(['web'])
  })

  it('runs the image that the manifest names by digest, from the install registry as the engine calls it', () => {
    const digest = `sha256:${'a'.repeat(64)}`
    const [operation] = job.manifest.operations
    const artifacts = [{ name: 'artifact', repository: 'apps/shop/web', digest }]
    const manifest = { ...job.manifest, operations: [{ ...operation!, component: 'web', artifacts }] }
    const registry = { url: 'http://127.0.0.1:5000', keyFile: '/key' }
    expect(imageOf(manifest, 'web', registry)).toBe(`127.0.0.1:5000/apps/shop/web@${digest}`)
    expect(imageOf(manifest, 'web', { ...registry, nodeAddress: 'registry:80' })).toBe(
      `registry:80/apps/shop/web@${digest}`,
    )
    expect(() => imageOf(manifest, 'other', registry)).toThrow('names no image of other')
    expect(() => imageOf(manifest, 'web', undefined)).toThrow('no registry')
  })
})
