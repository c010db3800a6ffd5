import { createHash } from 'node:crypto'
import { MAX_STATE_BYTES } from '@tenon/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ApiWorld, type ApiJob } from '../testing/api-world.ts'
import { waitUntil } from '../testing/wait-until.ts'
import { tokenOf } from './token.ts'

let world: ApiWorld

beforeEach(async () => {
  world = await ApiWorld.create()
})
afterEach(() => world.close())

const STATE = '/v1/terraform/web'
const lockBody = (id: string) => JSON.stringify({ ID: id, Operation: 'OperationTypeApply', Who: 'root@here' })
const lock = (job: ApiJob, id: string) => world.call(job, 'LOCK', STATE, { body: lockBody(id) })
const unlock = (job: ApiJob, id: string) => world.call(job, 'UNLOCK', STATE, { body: lockBody(id) })
const write = (job: ApiJob, id: string, state: string) =>
  world.call(job, 'POST', `${STATE}?ID=${id}`, { body: state })
const read = async (job: ApiJob) => (await world.call(job, 'GET', STATE)).bytes.toString()

describe('Terraform’s state in the job API', () => {
  it('is written under the lock alone, read by later jobs, and removed under the lock', async () => {
    await world.start()
    const job = await world.job()
    expect((await world.call(job, 'GET', STATE)).status).toBe(404)
    expect((await write(job, 'a', '{"serial":0}')).status).toBe(409)
    expect((await lock(job, 'a')).status).toBe(200)
    expect((await lock(job, 'a')).status).toBe(200)
    expect((await write(job, 'another', '{"serial":0}')).status).toBe(423)
    expect((await world.call(job, 'POST', STATE, { body: '{}' })).status).toBe(423)
    expect((await write(job, 'a', '{"serial":1}')).status).toBe(200)
    expect((await unlock(job, 'another')).status).toBe(423)
    expect((await unlock(job, 'a')).status).toBe(200)
    expect((await unlock(job, 'a')).status).toBe(200)
    await world.end(job)
    const next = await world.job()
    expect(await read(next)).toBe('{"serial":1}')
    expect((await world.call(next, 'DELETE', STATE)).status).toBe(409)
    await lock(next, 'b')
    expect((await world.call(next, 'DELETE', STATE)).status).toBe(200)
    expect((await world.call(next, 'GET', STATE)).status).toBe(404)
  })

  it('is locked by one live job at a time; the other hears who holds it', async () => {
    await world.start()
    const [first, second] = [await world.job(), await world.job()]
    await lock(first, 'a')
    const refused = await lock(second, 'b')
    expect(refused).toMatchObject({ status: 423, body: { ID: 'a', Who: 'root@here' } })
    expect(refused.body['Info']).toContain(first.manifest.jobId)
    expect((await write(second, 'a', '{}')).status).toBe(423)
    expect((await unlock(second, 'a')).status).toBe(423)
    expect((await world.call(second, 'UNLOCK', STATE)).status).toBe(423)
    expect((await world.call(second, 'DELETE', STATE)).status).toBe(423)
    expect((await world.call(first, 'UNLOCK', STATE)).status).toBe(200)
    expect((await lock(second, 'b')).status).toBe(200)
  })

  it('is free at once when the job that held the lock is dead', async () => {
    world.server.onFrame = (frame) => frame.type === 'job.finished'
    await world.start()
    const [first, second] = [await world.job(), await world.job()]
    await lock(first, 'a')
    expect((await lock(second, 'b')).status).toBe(423)
    await world.end(first)
    expect((await lock(second, 'b')).status).toBe(200)
    expect((await write(first, 'a', '{}')).status).toBe(401)
  })

  it('stays locked over a restart of the agent while the job lives, and is free when it died meanwhile', async () => {
    await world.start()
    const [first, second] = [await world.job(), await world.job()]
    await lock(first, 'a')
    await world.stop()
    await world.start()
    expect((await lock(second, 'b')).status).toBe(423)
    expect((await write(first, 'a', '{"serial":7}')).status).toBe(200)
    await world.stop()
    world.runtime.vanish(first.manifest.jobId)
    await world.start()
    await world.server.heard('job.finished', first.manifest.jobId)
    expect((await lock(second, 'b')).status).toBe(200)
    expect(await read(second)).toBe('{"serial":7}')
  })

  it('is free for the job that superseded the holder, and closed to the holder', async () => {
    await world.start()
    const old = await world.job()
    await lock(old, 'a')
    const next = await world.job({ jobId: old.manifest.jobId, fence: 2 })
    expect((await lock(next, 'b')).status).toBe(200)
    expect((await write(old, 'a', '{}')).status).toBe(401)
    const other = await world.job()
    await unlock(next, 'b')
    await lock(other, 'c')
    world.server.onHello = () => ({
      verdicts: [{ jobId: other.manifest.jobId, fence: 1, verdict: 'forget' }],
    })
    world.server.cut()
    await world.server.session(2)
    await waitUntil('the removal', () => !world.runtimeIds().includes(other.manifest.jobId))
    expect((await lock(next, 'd')).status).toBe(200)
  })

  it('takes what was sent or nothing: a wrong checksum, a too large or an unknown one changes nothing', async () => {
    await world.start()
    const job = await world.job()
    await lock(job, 'a')
    const md5 = (text: string) => createHash('md5').update(text).digest('base64')
    const post = (body: string, sum: string) =>
      world.call(job, 'POST', `${STATE}?ID=a`, { body, headers: { 'content-md5': sum } })
    expect((await post('{"serial":1}', md5('{"serial":1}'))).status).toBe(200)
    expect((await post('{"serial":2}', md5('{"serial":3}'))).status).toBe(400)
    const large = write(job, 'a', 'x'.repeat(MAX_STATE_BYTES + 1))
    expect(await large.catch(() => ({ status: 413 }))).toMatchObject({ status: 413 })
    expect(await read(job)).toBe('{"serial":1}')
    expect((await world.call(job, 'LOCK', STATE, { body: '{}' })).status).toBe(400)
    expect((await world.call(job, 'GET', '/v1/terraform/db')).status).toBe(403)
    expect((await world.call(job, 'PUT', STATE)).status).toBe(405)
  })

  it('is not kept by an agent that has no install', async () => {
    world.server.role = 'build'
    world.server.installId = null
    await world.start()
    const job = await world.job({ kind: 'build' })
    expect(await world.call(job, 'GET', STATE)).toMatchObject({
      status: 403,
      body: { error: { code: 'forbidden' } },
    })
  })
})

describe('a saved plan', () => {
  const put = (job: ApiJob, plan: string) => world.call(job, 'PUT', '/v1/plans', { body: plan })
  const get = (job: ApiJob, digest: string) => world.call(job, 'GET', `/v1/plans/${digest}`)
  const digestOf = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`

  it('is given to the job that saved it and to the one whose manifest approves it, to no other', async () => {
    await world.start()
    const planner = await world.job()
    const digest = digestOf('the plan')
    expect((await put(planner, 'the plan')).body).toEqual({ digest })
    expect((await get(planner, digest)).bytes.toString()).toBe('the plan')
    const stranger = await world.job()
    expect((await get(stranger, digest)).status).toBe(403)
    expect((await get(stranger, 'sha256:1')).status).toBe(400)
    const [operation] = planner.manifest.operations
    const approving = (approvedPlan: string) => ({ operations: [{ ...operation!, approvedPlan }] })
    const applier = await world.job(approving(digest))
    expect((await get(applier, digest)).bytes.toString()).toBe('the plan')
    const unknown = digestOf('never saved')
    const late = await world.job(approving(unknown))
    expect((await get(late, unknown)).status).toBe(404)
  })

  it('is kept until twenty later ones came, and the job is still its owner after a restart', async () => {
    await world.start()
    const job = await world.job()
    for (let index = 0; index <= 20; index++) await put(job, `plan ${index}`)
    await put(job, 'plan 20')
    await world.stop()
    await world.start()
    expect((await get(job, digestOf('plan 0'))).status).toBe(404)
    expect((await get(job, digestOf('plan 1'))).bytes.toString()).toBe('plan 1')
  })
})

describe('the token of a call', () => {
  const token = 'A'.repeat(43)
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

  it.each([
    [`Bearer ${token}`, token],
    [basic(`tenon:${token}`), token],
    [basic(`:${token}`), token],
    [basic(token), undefined],
    [basic(`${token}:`), undefined],
    [`bearer ${token}`, undefined],
    ['Basic', undefined],
    [undefined, undefined],
  ])('in %s is found, or not', (authorization, expected) => {
    expect(tokenOf(authorization)).toBe(expected)
  })
})
