import { verifyEntries, emptyHead } from '@tenon/core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { name as installName } from '@tenon/protocol'
import { sha256 } from '../crypto.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { activeInstall, builtApp, ended, newInstall, workAll } from '../testing/world.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
  await builtApp(tenant)
})
afterAll(() => tenant.stop())
afterEach(() => tenant.assertSound())

const get = (ref: string) => tenant.client.call('installs.get', { params: { ref } })
const listed = async () => (await tenant.client.call('installs.list', { query: {} })).items

/** Everything of it is removed; its agent's identity has ended. */
async function deprovisioned(name: string): Promise<string> {
  const agent = await activeInstall(tenant, name)
  const working = workAll(agent)
  const { id } = await get(name)
  const run = await tenant.client.call('installs.deprovision', { params: { ref: name } })
  await ended(tenant.client, run.id)
  await agent.close()
  await working
  return id
}

describe('the name of a deprovisioned install', () => {
  it('may be given to a new one, and means that one; the old one goes on by its id', async () => {
    const old = await deprovisioned('acme')
    expect((await get('acme')).id).toBe(old)
    const { install } = await newInstall(tenant.client, 'acme')
    expect(install).toMatchObject({ name: 'acme', status: 'provisioning' })
    expect((await get('acme')).id).toBe(install.id)
    expect(await get(old)).toMatchObject({ id: old, name: 'acme', status: 'deprovisioned' })
    expect((await listed()).filter(({ name }) => name === 'acme').map(({ id }) => id)).toEqual([
      old,
      install.id,
    ])
    const runs = await tenant.client.call('runs.list', { query: { install: old } })
    expect(runs.items.map((run) => [run.kind, run.install])).toEqual([
      ['deprovision', 'acme'],
      ['provision', 'acme'],
    ])
    await expect(newInstall(tenant.client, 'acme')).rejects.toMatchObject({ code: 'name_taken' })
  })

  it('goes to one of two that ask for it at once', async () => {
    await deprovisioned('wanted')
    const asked = await Promise.allSettled([
      newInstall(tenant.client, 'wanted'),
      newInstall(tenant.client, 'wanted'),
    ])
    expect(asked.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  it('is one that a server of the version before still finds taken, and can insert beside', async () => {
    const old = await deprovisioned('rolling')
    const { install } = await newInstall(tenant.client, 'rolling')
    const before = `insert into install (id, name, app_id, status, sandbox_type, sandbox_config, inputs, created_at)
      select $3, $1, app_id, 'new', 'none', '{}', '{}', now() from install where id = $2
      on conflict (name) do nothing returning id`
    const insert = async (name: string) =>
      (await tenant.context.pool.query(before, [name, install.id, tenant.context.newId('install')])).rowCount
    expect(await insert('rolling')).toBe(0)
    expect(await insert('other')).toBe(1)
    const { rows } = await tenant.context.pool.query('select name from install where id = $1', [old])
    expect(installName.safeParse(rows[0].name).success).toBe(true)
  })
})

describe('deleting an install', () => {
  const remove = (ref: string) => tenant.client.call('installs.delete', { params: { ref } })

  it('is refused before it is deprovisioned', async () => {
    await (await activeInstall(tenant, 'alive')).close()
    await expect(remove('alive')).rejects.toMatchObject({
      code: 'wrong_state',
      remedy: expect.stringContaining('tenon installs deprovision'),
    })
  })

  it('takes it and what it was told away; its audit and its runs stay, its name is free', async () => {
    const id = await deprovisioned('gone')
    const { joinToken } = await tenant.client.call('installs.joinToken', { params: { ref: 'gone' } })
    expect(await remove('gone')).toEqual({ id, name: 'gone' })
    for (const ref of ['gone', id]) {
      await expect(get(ref)).rejects.toMatchObject({ code: 'not_found' })
      await expect(remove(ref)).rejects.toMatchObject({ code: 'not_found' })
    }
    expect((await listed()).map((each) => each.id)).not.toContain(id)
    const { entries } = await tenant.client.call('audit.entries', {
      params: { chain: id },
      query: { limit: 1000 },
    })
    expect(JSON.parse(entries.at(-1)!.body)).toMatchObject({
      action: 'install.deleted',
      details: { name: 'gone' },
    })
    expect(verifyEntries(emptyHead(id), entries, sha256).problems).toEqual([])
    const { items } = await tenant.client.call('runs.list', { query: {} })
    expect(items.filter(({ installId }) => installId === id).map(({ install }) => install)).toEqual([
      'gone',
      'gone',
    ])
    const { rows } = await tenant.context.pool.query(
      'select expires_at <= now() as ended from join_token where used_at is null',
    )
    expect(rows).toEqual([{ ended: true }])
    expect(joinToken).not.toBe('')
    expect((await newInstall(tenant.client, 'gone')).install.id).not.toBe(id)
  })
})
