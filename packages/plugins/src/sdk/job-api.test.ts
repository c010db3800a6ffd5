import { createServer } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { serveJobApi, soon, type JobApiServer } from '../testing/job-api-server.ts'
import { manifestOf } from '../testing/job-world.ts'
import { until } from '../testing/programs.ts'
import { createJobApi } from './job-api.ts'

describe('the job API client', () => {
  let dir: string
  let server: JobApiServer
  const closers: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'tenon-job-api-'))
    const context = {
      installId: null,
      registry: null,
      hostSocket: null,
      serverUrl: 'http://x',
      programs: '/p',
    }
    server = await serveJobApi(join(dir, 'job.sock'), {
      manifest: manifestOf([{ operation: 'status' }]),
      context,
      secrets: { password: 'hunter2' },
      outputs: { db: { url: { sensitive: true, value: 'postgres://' } } },
      registryCredential: () => ({ registry: 'http://r', bearer: 'b', expiresAt: soon() }),
      joinToken: () => 'join',
      asked: [],
      progress: [],
      putOutputs: undefined,
      result: undefined,
    })
  })
  afterEach(async () => {
    for (const close of closers.splice(0)) await close()
  })
  afterAll(async () => {
    await server.stop()
    await rm(dir, { recursive: true })
  })

  const client = (options: Partial<Parameters<typeof createJobApi>[0]> = {}) =>
    createJobApi({ socketPath: server.socketPath, token: server.token, ...options })

  const answering = async (status: () => number, body: string) => {
    const socketPath = join(dir, 'other.sock')
    const other = createServer((_request, response) => response.writeHead(status()).end(body))
    await new Promise<void>((resolve) => other.listen(socketPath, resolve))
    closers.push(() => new Promise((resolve) => other.close(resolve)))
    return client({ socketPath })
  }

  it('reads and writes everything the contract names', async () => {
    const api = client()
    expect((await api.manifest()).operations[0]?.operation).toBe('status')
    expect((await api.context()).programs).toBe('/p')
    expect(await api.secret('password')).toBe('hunter2')
    expect(await api.outputs('db')).toEqual({ url: { sensitive: true, value: 'postgres://' } })
    expect((await api.registryCredential()).bearer).toBe('b')
    expect((await api.joinToken()).joinToken).toBe('join')
    await api.progress('half', 0.5)
    await api.putOutputs('web', { url: { sensitive: false, value: 'x' } })
    await api.putResult({ ok: true, message: 'fine', data: { a: 1 } })
    expect(server.record.progress).toEqual([{ message: 'half', fraction: 0.5 }])
    expect(server.record.putOutputs).toEqual({ url: { sensitive: false, value: 'x' } })
    expect(server.record.result).toEqual({ ok: true, message: 'fine', data: { a: 1 } })
  })

  it('says what the agent refused and what to do, at once and without the token', async () => {
    const refusal = client({ token: 'wrong-token' }).manifest()
    await expect(refusal).rejects.toMatchObject({ code: 'job_api_refused', remedy: 'Use its token.' })
    await expect(refusal).rejects.not.toThrow(/wrong-token/)
    await expect(client().secret('../absent')).rejects.toMatchObject({ code: 'job_api_refused' })
    expect(server.record.asked.at(-1)).toBe('GET /v1/secrets/..%2Fabsent')
  })

  it('waits for an agent that is away and goes on when it is back', async () => {
    await server.stop()
    let failures = 0
    const countFailures = () => {
      failures += 1
      return 0
    }
    const answer = client({ random: countFailures }).context()
    await until('two failed attempts', () => failures >= 2)
    await server.start()
    expect((await answer).programs).toBe('/p')
  })

  it('gives up with a coded error when the agent stays away', async () => {
    const gone = client({ socketPath: join(dir, 'nobody.sock'), patienceMs: 200 }).context()
    await expect(gone).rejects.toMatchObject({ code: 'job_api_unreachable' })
  })

  it('asks again when the agent is not ready', async () => {
    let asked = 0
    const api = await answering(() => (++asked < 3 ? 503 : 200), JSON.stringify({ name: 'a', value: 'v' }))
    expect(await api.secret('a')).toBe('v')
    expect(asked).toBe(3)
  })

  it.each(['not json', '{}', '[]', '{"name":1,"value":"v"}'])('refuses the answer %s', async (body) => {
    const api = await answering(() => 200, body)
    await expect(api.secret('a')).rejects.toMatchObject({ code: 'job_api_bad_answer' })
  })

  it('refuses an answer without end', async () => {
    const api = await answering(() => 200, 'x'.repeat(9_000_000))
    await expect(api.secret('a')).rejects.toMatchObject({ code: 'job_api_unreachable' })
  })

  it('stops waiting when the job is told to stop', async () => {
    const stop = new AbortController()
    const waiting = client({ socketPath: join(dir, 'nobody.sock'), signal: stop.signal }).context()
    stop.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'canceled' })
  })

  it('never fails the work because of its progress', async () => {
    const told = client({ socketPath: join(dir, 'nobody.sock') }).progress('on', null)
    await expect(told).resolves.toBeUndefined()
  })
})
