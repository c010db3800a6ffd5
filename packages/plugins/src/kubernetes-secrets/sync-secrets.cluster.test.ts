import type { Json } from '@tenon/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDeployWorld, type DeployWorld, type Given } from '../testing/deploy-world.ts'
import { accountOf, kubeconfig, kubectl, pathWith, whyNoCluster } from '../testing/kubernetes.ts'

const absent = whyNoCluster()
const MARKER = 'marker-secret-5ec2e7'

function given(targets: Json[], secrets: Record<string, string>): Given {
  return { type: 'kubernetes_secrets', config: { targets }, secrets, timeoutSeconds: 120 }
}

function target(secret: string, namespace: string, name: string, more: { [key: string]: Json } = {}): Json {
  return { secret, required: false, isEncoded: false, namespace, name, key: 'value', ...more }
}

describe('secrets for a cluster, in an install that has none', () => {
  it('are left where they are, which is said', async () => {
    const deploys = await createDeployWorld({ types: ['kubernetes_secrets'] })
    const end = await deploys.run('deploy', given([target('key', 'shop', 'key')], { key: MARKER }))
    expect(end).toMatchObject({ ok: true })
    expect(end.message).toContain('has no cluster')
    await deploys.close()
  }, 120_000)
})

describe.skipIf(absent)(`secrets in a cluster${absent ? ` (skipped: ${absent})` : ''}`, () => {
  let deploys: DeployWorld
  const namespace = `secrets-${process.pid}`
  const read = async (name: string, key = 'value') => {
    const text = await kubectl('get', 'secret', name, '-n', namespace, '-o', `jsonpath={.data.${key}}`)
    return Buffer.from(text, 'base64').toString()
  }

  beforeAll(async () => {
    deploys = await createDeployWorld({
      types: ['kubernetes_secrets'],
      kubeconfig: kubeconfig(),
      path: (world) => pathWith(world, { kubectl: 'kubectl' }),
    })
  }, 120_000)
  afterAll(async () => {
    await kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--wait=false')
    await deploys?.close()
  }, 120_000)

  it('are made, changed and removed, and their values are told to nobody', async () => {
    const place = '{{ .nuon.install.name }}'
    const targets = [
      target('key', namespace, 'key'),
      target('encoded', namespace, `${place}-more`, { isEncoded: true, key: 'a' }),
      target('key', namespace, `${place}-more`, { key: 'b' }),
      target('unset', namespace, 'unset'),
    ]
    const encoded = Buffer.from('decoded').toString('base64')
    const first = await deploys.run('deploy', given(targets, { key: MARKER, encoded }))
    expect(first).toMatchObject({ ok: true, message: `Synced ${namespace}/key, ${namespace}/acme-more.` })
    expect(await read('key')).toBe(MARKER)
    expect([await read('acme-more', 'a'), await read('acme-more', 'b')]).toEqual(['decoded', MARKER])
    expect(await kubectl('get', 'secret', 'unset', '-n', namespace, '--ignore-not-found')).toBe('')
    const whole = await kubectl(
      'get',
      'secret',
      'key',
      '-n',
      namespace,
      '-o',
      'jsonpath={.metadata.annotations}',
    )
    expect(whole).not.toContain('last-applied')

    const next = await deploys.run('deploy', given(targets.slice(0, 1), { key: `${MARKER}-2` }))
    expect(next.message).toContain('Removed 1')
    expect(await read('key')).toBe(`${MARKER}-2`)
    expect(await kubectl('get', 'secret', 'acme-more', '-n', namespace, '--ignore-not-found')).toBe('')
    expect(first.log + first.told + next.log + next.told).not.toContain(MARKER)

    expect(await deploys.run('destroy', given(targets.slice(0, 1), {}))).toMatchObject({ ok: true })
    expect(await kubectl('get', 'namespace', namespace, '--ignore-not-found')).toBe('')
  }, 300_000)

  it('are kept by an account of one namespace too, which can look into no other', async () => {
    const place = `${namespace}-own`
    await kubectl('create', 'namespace', place)
    const alone = await createDeployWorld({
      types: ['kubernetes_secrets'],
      kubeconfig: await accountOf(place, deploys.world.dir),
      path: (world) => pathWith(world, { kubectl: 'kubectl' }),
    })
    const targets = [target('key', place, 'key'), target('key', place, 'other')]
    expect(await alone.run('deploy', given(targets, { key: MARKER }))).toMatchObject({ ok: true })
    const next = await alone.run('deploy', given(targets.slice(0, 1), { key: MARKER }))
    expect(next).toMatchObject({ ok: true, message: expect.stringContaining('Removed 1') })
    expect(await alone.run('destroy', given(targets.slice(0, 1), {}))).toMatchObject({ ok: true })
    expect(await kubectl('get', 'secrets', '-n', place, '-o', 'name')).toBe('')
    await alone.close()
    await kubectl('delete', 'namespace', place, '--wait=false')
  }, 300_000)

  it('that are required and absent, or somebody else’s, stop it with the reason', async () => {
    const required = [target('key', namespace, 'key', { required: true })]
    expect((await deploys.run('deploy', given(required, {}))).message).toContain('no secret key')
    await kubectl('create', 'namespace', namespace)
    await kubectl('create', 'secret', 'generic', 'key', '-n', namespace, '--from-literal=value=theirs')
    const foreign = await deploys.run('deploy', given(required, { key: MARKER }))
    expect(foreign).toMatchObject({ ok: false, data: { code: 'cluster_refused' } })
    expect(foreign.message).toContain("is not this install's")
    expect(await read('key')).toBe('theirs')
    expect(await deploys.run('destroy', given(required, {}))).toMatchObject({ ok: true })
    expect(await read('key')).toBe('theirs')
    const both = [...required, target('other', namespace, 'key')]
    const twice = await deploys.run('deploy', given(both, { key: 'one', other: 'two' }))
    expect(twice.message).toContain('Two secrets')
  }, 300_000)
})
