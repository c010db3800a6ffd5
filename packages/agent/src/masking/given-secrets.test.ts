import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Encrypter } from 'age-encryption'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ApiWorld, type ApiJob } from '../testing/api-world.ts'
import { waitUntil } from '../testing/wait-until.ts'

const SECRET = 'correct horse "battery"'
const OUTPUT = 'password-of-the-database'

let world: ApiWorld

beforeEach(async () => {
  world = await ApiWorld.create()
  await world.start()
  await deliverSecret('api-key', SECRET)
})
afterEach(() => world.close())

async function deliverSecret(name: string, value: string): Promise<void> {
  const encrypter = new Encrypter()
  encrypter.addRecipient((await world.server.heard('hello')).recipient!.age)
  const ciphertext = Buffer.from(await encrypter.encrypt(value)).toString('base64')
  const before = world.server.all('secret.stored').length
  world.server.send({ type: 'secret.deliver', secretId: before + 1, name, ciphertext })
  await waitUntil('the secret to be stored', () => world.server.all('secret.stored').length > before)
}

/** A job that prints `text` when it is told to stop. */
function jobThatPrints(text: string): Promise<ApiJob> {
  const operation = world.server.manifest({}, { untilReleased: true, stopText: text }).operations[0]!
  const config = { ...operation.config, secrets: ['api-key'] }
  return world.job({ operations: [{ ...operation, config }] })
}

const put = (job: ApiJob, what: string, body: object) =>
  world.call(job, 'PUT', `/v1/${what}`, { body: JSON.stringify(body) })

async function cancel({ manifest: { jobId, fence } }: ApiJob): Promise<string> {
  world.server.send({ type: 'job.cancel', jobId, fence })
  await world.server.heard('job.finished', jobId)
  return world.server.logs.get(jobId)?.toString() ?? ''
}

describe('what a job was given', () => {
  const text = `key ${SECRET}, ${Buffer.from(SECRET).toString('base64')}, ${JSON.stringify(SECRET)}, db ${OUTPUT}\n`

  it('leaves the agent in no log, progress, result or output, though the job tells it', async () => {
    const job = await jobThatPrints(text)
    await world.call(job, 'GET', '/v1/secrets/api-key')
    const outputs = {
      password: { sensitive: true, value: { deep: [OUTPUT] } },
      url: { sensitive: false, value: `postgres://u:${OUTPUT}@db/x` },
    }
    await put(job, 'outputs', outputs)
    await put(job, 'progress', { message: `${'x'.repeat(290)}${SECRET}`, fraction: 1 })
    const data = { note: `is ${SECRET}`, [OUTPUT]: 1 }
    await put(job, 'result', { ok: false, message: `login with ${SECRET} failed`, data })
    const logged = await cancel(job)
    const stars = (value: string) => '*'.repeat(Buffer.byteLength(value))
    expect(logged).toHaveLength(text.length)
    expect(logged).toBe(
      `key ${stars(SECRET)}, ${stars(Buffer.from(SECRET).toString('base64'))}, ` +
        `"${stars(JSON.stringify(SECRET).slice(1, -1))}", db ${stars(OUTPUT)}\n`,
    )
    const { report } = await world.server.heard('job.finished', job.manifest.jobId)
    expect(report.outputs['url']?.value).toBe(`postgres://u:${stars(OUTPUT)}@db/x`)
    expect(report.result).toEqual({ note: `is ${stars(SECRET)}`, [stars(OUTPUT)]: 1 })
    const frames = JSON.stringify(world.server.frames)
    for (const part of [SECRET, 'correct horse', OUTPUT]) expect(frames).not.toContain(part)
    expect(frames).toContain(`${'x'.repeat(290)}*********…`)
  })

  it('is known again after a restart of the agent, also when its value was changed meanwhile', async () => {
    const job = await jobThatPrints(text)
    await world.call(job, 'GET', '/v1/secrets/api-key')
    await put(job, 'outputs', { password: { sensitive: true, value: OUTPUT } })
    await deliverSecret('api-key', 'another value')
    await world.stop()
    await world.start()
    const logged = await cancel(job)
    for (const part of ['correct horse', OUTPUT]) expect(logged).not.toContain(part)
    // Its manifest holds the text, since it is a fake one.
    const lines = readFileSync(path.join(world.agentDir, 'journal.jsonl'), 'utf8').split('\n')
    const journal = lines.filter((line) => !line.includes('"type":"accepted"')).join('\n')
    expect(journal).toContain('"type":"given"')
    for (const part of ['correct horse', OUTPUT]) expect(journal).not.toContain(part)
  })

  it('is masked where the server cut the log within it', async () => {
    world.server.ackLogs = false
    const job = await jobThatPrints(text)
    await world.call(job, 'GET', '/v1/secrets/api-key')
    const { jobId, fence } = job.manifest
    world.server.send({ type: 'job.cancel', jobId, fence })
    await waitUntil('the log', () => world.server.logs.get(jobId)?.includes('\n'))
    world.server.cut()
    world.server.logs.set(jobId, world.server.logs.get(jobId)!.subarray(0, 10))
    world.server.ackLogs = true
    await world.server.heard('job.finished', jobId)
    await waitUntil('the rest', () => world.server.logs.get(jobId)?.byteLength === text.length)
    expect(world.server.logs.get(jobId)?.toString()).toMatch(/^key \*+, \*+, "\*+", db /)
  })

  it('includes its own token', async () => {
    const job = await jobThatPrints('nothing')
    const token = job.spec.files['token']!
    await put(job, 'progress', { message: `my token is ${token}`, fraction: 1 })
    const { message } = await world.server.heard('job.progress', job.manifest.jobId)
    expect(message).toBe(`my token is ${'*'.repeat(token.length)}`)
  })
})
