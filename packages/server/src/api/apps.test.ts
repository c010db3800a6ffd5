import type { App } from '@tenon/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
})
afterAll(() => tenant.stop())

const app = (description: string): App => ({
  name: 'shop',
  displayName: 'Shop',
  description,
  components: [{ name: 'web', type: 'script', dependencies: [], config: { a: ['{{ .nuon.id }}', 1] } }],
  carried: { 'stack.toml': { name: 's' } },
})

describe('the versions of an app', () => {
  it('are kept with their content, newest first, and read page by page', async () => {
    const { client } = tenant
    for (const words of ['one', 'two', 'two', 'three'])
      await client.call('apps.sync', { body: { app: app(words) } })
    const first = await client.call('apps.versions', { params: { ref: 'shop' }, query: { limit: 2 } })
    expect(first.items.map((version) => version.number)).toEqual([3, 2])
    const rest = await client.call('apps.versions', {
      params: { ref: 'shop' },
      query: { limit: 2, after: first.next! },
    })
    expect(rest).toMatchObject({ items: [{ number: 1 }], next: null })
    const second = await client.call('apps.version', { params: { ref: 'shop', number: '2' } })
    expect(second).toEqual({ ...first.items[1], app: app('two') })
  })

  it('that are not there are not found', async () => {
    const missing = tenant.client.call('apps.version', { params: { ref: 'shop', number: '9' } })
    await expect(missing).rejects.toMatchObject({ code: 'not_found', message: 'app shop has no version 9' })
  })
})

describe('a list that asks for one app', () => {
  it('says so when there is none of that name', async () => {
    const { client } = tenant
    const { app: shop } = await client.call('apps.sync', { body: { app: app('lists') } })
    for (const route of ['builds.list', 'installs.list', 'artifacts.list'] as const) {
      await expect(client.call(route, { query: { app: 'nope' } })).rejects.toMatchObject({
        code: 'not_found',
        message: 'there is no app nope',
      })
      expect(await client.call(route, { query: { app: shop.name } })).toEqual({ items: [], next: null })
    }
  })
})
