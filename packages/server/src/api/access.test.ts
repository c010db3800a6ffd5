import { can, USER_ROLES, type UserRole } from '@tenon/core'
import { ApiError } from '@tenon/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ask, coded, routeNames, routeOf, unknownId } from '../testing/raw-api.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'

let tenant: TestTenant
const tokens = {} as Record<UserRole, string>
let expired: string
let revoked: string

beforeAll(async () => {
  tenant = await startTestTenant()
  for (const role of USER_ROLES) tokens[role] = (await tenant.clientFor(role)).token
  expired = await tokenWith({ expires_at: new Date(Date.now() - 1000).toISOString() })
  revoked = await tokenWith({ revoked_at: new Date().toISOString() })
})
afterAll(() => tenant.stop())

/** Made as every token is, then aged in the table. */
async function tokenWith(change: { expires_at: string } | { revoked_at: string }): Promise<string> {
  const { token, secret } = await tenant.client.call('tokens.create', {
    body: { name: 'aged', role: 'owner' },
  })
  await tenant.context.db.updateTable('api_token').set(change).where('id', '=', token.id).execute()
  return secret
}

describe.each(routeNames)('%s', (name) => {
  it('is denied without a token', async () => {
    expect(coded(await ask(tenant.url, name))).toEqual([401, 'unauthorized'])
  })

  it('is denied with a token that nobody made', async () => {
    const token = `tenon_${'x'.repeat(43)}`
    expect(coded(await ask(tenant.url, name, { token }))).toEqual([401, 'unauthorized'])
  })

  it('is denied with an expired token', async () => {
    expect(coded(await ask(tenant.url, name, { token: expired }))).toEqual([401, 'token_expired'])
  })

  it('is denied with a revoked token', async () => {
    expect(coded(await ask(tenant.url, name, { token: revoked }))).toEqual([401, 'unauthorized'])
  })

  it('is for exactly the roles that its permission names', async () => {
    const { permission, body } = routeOf(name)
    for (const role of USER_ROLES) {
      // A body of the wrong form, so that who may does not change anything: authorisation comes before it is read.
      const answer = await ask(tenant.url, name, {
        token: tokens[role],
        query: '?nothing=of-the-kind',
        ...(body === null ? {} : { body: '{"no":"such field"}' }),
      })
      const expected = can(role, permission) ? [400, 'bad_request'] : [403, 'forbidden']
      expect(coded(answer)).toEqual(expected)
    }
  })
})

describe('API tokens', () => {
  it.each(['Basic dGVub24=', 'Bearer', 'Bearer  ', `bearer tenon_${'x'.repeat(43)}`, 'Bearer a b'])(
    'are not read out of %j',
    async (authorization) => {
      const response = await fetch(`${tenant.url}/api/v1/server`, { headers: { authorization } })
      expect(response.status).toBe(401)
    },
  )

  it('stop working the moment they are revoked', async () => {
    const { client } = await tenant.clientFor('viewer')
    const { you } = await client.call('server.info', {})
    await tenant.client.call('tokens.revoke', { params: { id: you.tokenId } })
    await expect(client.call('server.info', {})).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it('are stored as a hash only', async () => {
    const { token } = await tenant.clientFor('viewer')
    const { rows } = await tenant.context.pool.query('select t::text as row from api_token t')
    expect(rows.length).toBeGreaterThan(0)
    expect(rows.filter(({ row }) => (row as string).includes(token.slice(6)))).toEqual([])
  })

  it('that do not exist cannot be revoked', async () => {
    const call = tenant.client.call('tokens.revoke', { params: { id: unknownId('tok') } })
    await expect(call).rejects.toBeInstanceOf(ApiError)
    await expect(call).rejects.toMatchObject({ code: 'not_found' })
  })
})

afterEach(() => tenant.assertSound())
