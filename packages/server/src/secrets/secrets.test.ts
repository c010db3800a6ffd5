import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import type { AppSecret } from '@tenon/core'
import { auditOf } from '../testing/audit.ts'
import { SIZE } from '../testing/planned-world.ts'
import { connectAgent } from '../testing/test-agent.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { until } from '../testing/until.ts'
import { activeInstall, builtApp, component } from '../testing/world.ts'

const secret = (name: string): AppSecret => ({
  name,
  displayName: '',
  description: '',
  required: false,
  autoGenerate: false,
  format: '',
})

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
  const db = component('db')
  db.config = { secrets: ['api-key'], value: '{{ index .nuon.secrets "of-template" }}' }
  await builtApp(tenant, 'shop', [db, component('web', ['db'])], {
    secrets: ['password', 'zebra'].map(secret),
    inputs: [{ ...SIZE, name: 'pin', sensitive: true }],
  })
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

it('secrets are delivered, their ciphertext is gone afterwards, and only the newest of two arrives', async () => {
  const agent = await activeInstall(tenant, 'secretive')
  const { identity } = agent
  await agent.close()
  await until('away', async () => {
    const { agent: shown } = await tenant.client.call('installs.get', { params: { ref: 'secretive' } })
    return shown?.connected === false
  })
  const put = (value: string) =>
    tenant.client.call('secrets.put', {
      params: { ref: 'secretive', name: 'password' },
      body: { ciphertext: Buffer.from(value).toString('base64') },
    })
  expect(await put('sealed once')).toMatchObject({ version: 1, delivered: false })
  expect(await put('sealed twice')).toMatchObject({ version: 2, delivered: false })
  const back = await connectAgent(tenant.url, identity)
  const frame = await back.next('secret.deliver')
  expect(Buffer.from(frame.ciphertext, 'base64').toString()).toBe('sealed twice')
  // The poll may offer it again; the one before it is offered never.
  expect(back.frames.every((f) => f.type !== 'secret.deliver' || f.secretId === frame.secretId)).toBe(true)
  back.send({ type: 'secret.stored', secretId: frame.secretId, ok: true, message: '' })
  const list = () => tenant.client.call('secrets.list', { params: { ref: 'secretive' } })
  await until('delivered', async () => (await list()).items[0]?.delivered)
  const { rows } = await tenant.context.pool.query('select length(ciphertext) as bytes from install_secret')
  expect(rows.map((row) => row.bytes)).toEqual([0])
  const audit = await auditOf(tenant, identity.installId!, 'password')
  expect(audit).toEqual(['secret.set ok', 'secret.set ok', 'secret.delivered ok'])
  await back.close()
})

it('secrets that an agent cannot store are shown with its reason, audited once, and not sent over and over', async () => {
  const agent = await activeInstall(tenant, 'unable')
  const params = { ref: 'unable', name: 'password' }
  await tenant.client.call('secrets.put', { params, body: { ciphertext: 'AAAA' } })
  const { secretId } = await agent.next('secret.deliver')
  const refuse = () => agent.send({ type: 'secret.stored', secretId, ok: false, message: 'no space left' })
  refuse()
  const shown = async () => {
    const { items } = await tenant.client.call('secrets.list', { params })
    return items.find(({ name }) => name === params.name)
  }
  await until('the reason', async () => (await shown())?.problem === 'no space left')
  expect(await shown()).toMatchObject({ delivered: false })
  refuse()
  await agent.close()
  const back = await connectAgent(tenant.url, agent.identity)
  // One look offers all that may be offered: with this one the refused one would have come.
  await tenant.client.call('secrets.put', {
    params: { ...params, name: 'zebra' },
    body: { ciphertext: 'AAAA' },
  })
  const isOffered = (name: string) => back.frames.some((f) => f.type === 'secret.deliver' && f.name === name)
  await until('the other', () => isOffered('zebra'))
  expect(isOffered(params.name)).toBe(false)
  await tenant.context.pool.query(
    `update install_secret set refused_at = refused_at - interval '1 hour' where id = ${secretId}`,
  )
  tenant.context.hub.nudge([`agent:${agent.identity.agentId}`])
  await until('the refused one', () => isOffered(params.name))
  back.send({ type: 'secret.stored', secretId, ok: true, message: '' })
  await until('delivered', async () => (await shown())?.delivered)
  expect(await shown()).toMatchObject({ problem: null })
  const audit = await auditOf(tenant, agent.identity.installId!, 'password')
  expect(audit).toEqual(['secret.set ok', 'secret.refused failed', 'secret.delivered ok'])
  await back.close()
})

it('a secret that the app does not declare is refused, with the nearest name', async () => {
  const agent = await activeInstall(tenant, 'mistyped')
  const put = (name: string) =>
    tenant.client.call('secrets.put', { params: { ref: 'mistyped', name }, body: { ciphertext: 'AAAA' } })
  await expect(put('pasword')).rejects.toMatchObject({
    code: 'not_found',
    message: 'app shop has no secret pasword',
    remedy: expect.stringContaining('Did you mean password?'),
  })
  await expect(put('unlike-any')).rejects.toMatchObject({
    remedy: expect.stringContaining('password, zebra, api-key, of-template, input--pin'),
  })
  for (const name of ['api-key', 'of-template', 'input--pin']) expect(await put(name)).toMatchObject({ name })
  const { items } = await tenant.client.call('secrets.list', { params: { ref: 'mistyped' } })
  expect(items.map(({ name }) => name)).toEqual(['api-key', 'input--pin', 'of-template'])
  await agent.close()
})
