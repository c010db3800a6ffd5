import { describe, expect, it } from 'vitest'
import { parseObjects } from '../kubernetes/objects.ts'
import { closeImages } from './closure.ts'
import { imageOutputs, KnownImages, splitImage } from './images.ts'

const digest = (digit: string) => `sha256:${digit.repeat(64)}`
const known = new KnownImages()
known.add('redis', `node:5000/apps/web@${digest('1')}`)
known.add('ghcr.io/acme/api:v2', `node:5000/apps/web@${digest('2')}`)
known.add(`quay.io/x/y@${digest('3')}`, `node:5000/apps/web@${digest('3')}`)
known.addComponent('node:5000', { repository: 'apps/img', digest: digest('4') })
const outputs = imageOutputs('node:5000', { repository: 'apps/img', digest: digest('4') })

describe('images at deploy', () => {
  it.each([
    ['redis', '1'],
    ['redis:latest', '1'],
    ['docker.io/library/redis', '1'],
    ['index.docker.io/redis:latest', '1'],
    [`redis@${digest('1')}`, '1'],
    [`redis:7@${digest('1')}`, '1'],
    ['ghcr.io/acme/api:v2', '2'],
    [`ghcr.io/acme/api@${digest('2')}`, '2'],
    [`quay.io/x/y@${digest('3')}`, '3'],
    [`node:5000/apps/web@${digest('2')}`, '2'],
    [outputs.reference, '4'],
    [`${outputs.repository}:${outputs.tag}`, '4'],
  ])('finds %s by its name', (image, digit) => {
    expect(known.find(image)).toMatch(new RegExp(`^node:5000/apps/(web|img)@sha256:${digit}{64}$`))
  })

  it.each([
    'redis:7',
    'library/redis:8',
    'ghcr.io/acme/api',
    'acme/api:v2',
    `redis@${digest('2')}`,
    'node:5000/apps/img:v2',
    `evil.example/apps/img:${outputs.tag}`,
    '',
    'a b',
  ])('does not know %j', (image) => {
    expect(known.find(image)).toBeUndefined()
  })

  it('reads names as container engines do', () => {
    expect(splitImage('localhost/a:1')).toEqual({ name: 'localhost/a', tag: '1', digest: undefined })
    expect(splitImage('host:5000/a/b')).toEqual({ name: 'host:5000/a/b', tag: undefined, digest: undefined })
  })

  it('points containers of every kind at the registry and names each place outside the closure', () => {
    const text = `
apiVersion: batch/v1beta1
kind: CronJob
metadata: { name: nightly, namespace: ops }
spec: { jobTemplate: { spec: { template: { spec: {
  initContainers: [{ name: a, image: redis }],
  containers: [{ name: b, image: "ghcr.io/acme/api:v2" }] } } } } }
---
apiVersion: example.com/v1
kind: Database
metadata: { name: db }
spec: { image: redis, logo: { image: holiday.png } }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: text }
data: { image: redis }
`
    const closed = closeImages(parseObjects(text, 'test'), known)
    expect(JSON.stringify(closed.objects[0])).not.toMatch(/"redis"|ghcr/)
    expect(closed.objects[1]).toMatchObject({
      spec: { image: `node:5000/apps/web@${digest('1')}`, logo: { image: 'holiday.png' } },
    })
    expect(closed.objects[2]).toMatchObject({ data: { image: 'redis' } })
    expect(closed.images.toSorted()).toEqual(['1', '2'].map((digit) => `node:5000/apps/web@${digest(digit)}`))
    const outside = text.replace('image: redis }]', 'image: "nginx:1" }]')
    expect(() => closeImages(parseObjects(outside, 'test'), known)).toThrow(
      'nginx:1 at CronJob ops/nightly spec.jobTemplate.spec.template.spec.initContainers[0].image',
    )
  })
})
