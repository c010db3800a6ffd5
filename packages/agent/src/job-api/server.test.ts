import { mkdtemp, rm, stat } from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { JOB_API_MAX_BODY } from '@tenon/protocol'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, type Agent } from '../agent.ts'
import { sha256 } from '../ground/crypto.ts'
import { createFakeRuntime } from '../runtime/fake.ts'
import type { JobSpec, Runtime } from '../runtime/runtime.ts'
import { configOf } from '../testing/agent-config.ts'
import { ContractServer } from '../testing/contract-server.ts'
import { waitUntil } from '../testing/wait-until.ts'
import { chooseFolder } from './socket-folder.ts'

let dir: string
let server: ContractServer
let registry: http.Server
let grants: { authorization: string | undefined; body: unknown }[]
let specs: JobSpec[]
let agent: Agent
let release: (jobId: string) => void

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-api-'))
  server = await ContractServer.start()
  grants = []
  registry = http.createServer((request, response) => {
    let text = ''
    request.on('data', (part: Buffer) => (text += part.toString()))
    request.on('end', () => {
      grants.push({ authorization: request.headers.authorization, body: JSON.parse(text) })
      response.end(JSON.stringify({ bearer: 'short-bearer' }))
    })
  })
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
  specs = []
})
afterEach(async () => {
  await agent.stop()
  await server.close()
  registry.closeAllConnections()
  await new Promise((resolve) => registry.close(resolve))
  await rm(dir, { recursive: true, force: true })
})

async function startAgent(withRegistry = false): Promise<void> {
  const { writeFile } = await import('node:fs/promises')
  await writeFile(path.join(dir, 'registry.key'), 'registry-key\n')
  const fake = createFakeRuntime({ behaviour: () => ({ untilReleased: true }) })
  release = (jobId) => fake.release(jobId)
  const start: Runtime['start'] = (spec) => {
    specs.push(spec)
    return fake.start(spec)
  }
  const { port } = registry.address() as { port: number }
  const settings = { url: `http://127.0.0.1:${port}`, keyFile: path.join(dir, 'registry.key') }
  agent = createAgent({
    config: configOf(server, dir, {
      slots: 4,
      registry: withRegistry ? settings : undefined,
      hostSocket: '/run/host/host.sock',
    }),
    runtime: { ...fake, start },
    log: pino({ level: 'silent' }),
    random: () => 0.01,
  })
  await agent.start()
  await server.session()
}

interface Answer {
  status: number
  body: Record<string, unknown> & { error?: { code: string; message: string; remedy: string } }
}

function call(spec: JobSpec, method: string, url: string, body?: unknown, token?: string): Promise<Answer> {
  const socketPath = spec.env['TENON_JOB_URL']!.slice('unix:'.length)
  const authorization = `Bearer ${token ?? spec.files['token']}`
  return new Promise((resolve, reject) => {
    const request = http.request(
      { socketPath, method, path: url, headers: { authorization } },
      (response) => {
        let text = ''
        response.on('data', (part: Buffer) => (text += part.toString()))
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as never }),
        )
      },
    )
    request.on('error', reject)
    request.end(typeof body === 'string' ? body : body === undefined ? undefined : JSON.stringify(body))
  })
}

async function startJob(changes: Parameters<ContractServer['manifest']>[0] = {}) {
  const manifest = server.manifest(changes)
  server.assign(manifest)
  await server.heard('job.started', manifest.jobId)
  return { manifest, spec: specs.find(({ jobId }) => jobId === manifest.jobId)! }
}

describe('the job API', () => {
  it('gives a job its manifest and context, and nobody else anything', async () => {
    await startAgent()
    const { manifest, spec } = await startJob()
    expect(await call(spec, 'GET', '/v1/manifest')).toEqual({ status: 200, body: manifest })
    expect((await call(spec, 'GET', '/v1/context')).body).toEqual({
      installId: server.installId,
      registry: null,
      hostSocket: '/run/host/host.sock',
      serverUrl: server.url,
      programs: '/programs',
      serverKeys: Object.fromEntries(server.keys.map(({ link }) => [link.keyId, link.publicKey])),
    })
    for (const token of ['', 'A'.repeat(43), sha256(Buffer.from(spec.files['token']!))]) {
      const answer = await call(spec, 'GET', '/v1/manifest', undefined, token)
      expect(answer).toMatchObject({ status: 401, body: { error: { code: 'unauthorized' } } })
    }
  })

  it('keeps its socket where only this user can reach it', async () => {
    await startAgent()
    const { spec } = await startJob()
    const folder = path.dirname(spec.env['TENON_JOB_URL']!.slice('unix:'.length))
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    expect(spec.mounts).toContainEqual({ path: folder, writable: false })
  })

  it('keeps sensitive outputs in the install and reports the others', async () => {
    await startAgent()
    const { manifest, spec } = await startJob()
    const outputs = {
      url: { sensitive: false, value: 'http://x' },
      password: { sensitive: true, value: 'p' },
    }
    expect((await call(spec, 'PUT', '/v1/outputs', outputs)).status).toBe(200)
    expect(
      (await call(spec, 'PUT', '/v1/result', { ok: true, message: 'up', data: { port: 1 } })).status,
    ).toBe(200)
    expect((await call(spec, 'GET', '/v1/outputs/web')).body).toEqual(outputs)
    expect((await call(spec, 'GET', '/v1/outputs/other')).status).toBe(403)
    release(manifest.jobId)
    const { report } = await server.heard('job.finished', manifest.jobId)
    expect(report.outputs).toEqual({ url: outputs.url, password: { sensitive: true } })
    expect(report).toMatchObject({ message: 'up', result: { port: 1 }, outcome: 'succeeded' })
    expect((await call(spec, 'GET', '/v1/manifest')).status).toBe(401)
  })

  it('fails a job that says so itself, although its program ended well', async () => {
    await startAgent()
    const { manifest, spec } = await startJob()
    await call(spec, 'PUT', '/v1/result', { ok: false, message: 'port is taken', data: {} })
    release(manifest.jobId)
    const { report } = await server.heard('job.finished', manifest.jobId)
    expect(report).toMatchObject({ outcome: 'failed', reason: 'exit', exitCode: 0, message: 'port is taken' })
  })

  it('answers bad calls with a code and what to do', async () => {
    await startAgent()
    const { spec } = await startJob()
    const cases: [string, string, unknown, number, string][] = [
      ['GET', '/v1/nothing', undefined, 404, 'unknown_route'],
      ['POST', '/v1/manifest', {}, 405, 'method_not_allowed'],
      ['PUT', '/v1/result', '{not json', 400, 'bad_request'],
      ['PUT', '/v1/result', { ok: 'yes' }, 400, 'bad_request'],
      ['PUT', '/v1/result', { ok: true, message: '', data: { x: 'x'.repeat(300_000) } }, 413, 'too_large'],
      ['PUT', '/v1/outputs?component=db', {}, 403, 'forbidden'],
      ['GET', '/v1/secrets/..%2F..%2Fidentity', undefined, 400, 'bad_request'],
      ['GET', '/v1/secrets/%E0%A4%A', undefined, 400, 'bad_request'],
      ['GET', '/v1/secrets/unnamed', undefined, 403, 'forbidden'],
      ['POST', '/v1/credentials/join-token', {}, 403, 'forbidden'],
    ]
    for (const [method, url, body, status, code] of cases) {
      const answer = await call(spec, method, url, body)
      expect([method, url, answer.status, answer.body.error?.code]).toEqual([method, url, status, code])
      expect(answer.body.error?.remedy).toBeTruthy()
    }
    const large = call(spec, 'PUT', '/v1/outputs', 'x'.repeat(JOB_API_MAX_BODY + 1))
    expect(await large.catch(() => ({ status: 413 }))).toMatchObject({ status: 413 })
    expect((await call(spec, 'GET', '/v1/manifest')).status).toBe(200)
  })

  it('gives only the secrets and outputs that the manifest names', async () => {
    await startAgent()
    const operation = server.manifest().operations[0]!
    const config = { ...operation.config, secrets: ['absent'], dependencies: ['db'] }
    const { spec } = await startJob({ operations: [{ ...operation, config }] })
    expect((await call(spec, 'GET', '/v1/secrets/absent')).status).toBe(404)
    expect((await call(spec, 'GET', '/v1/outputs/db')).status).toBe(404)
    expect((await call(spec, 'GET', '/v1/secrets/other')).status).toBe(403)
    expect((await call(spec, 'GET', '/v1/outputs/other')).status).toBe(403)
  })

  it('tells progress', async () => {
    await startAgent()
    const { manifest, spec } = await startJob()
    await call(spec, 'PUT', '/v1/progress', { message: 'half', fraction: 0.5 })
    expect(await server.heard('job.progress', manifest.jobId)).toMatchObject({
      message: 'half',
      fraction: 0.5,
    })
  })

  it('gets an install job a short bearer of the install registry, for what its manifest names', async () => {
    await startAgent(true)
    const artifact = { name: 'image', repository: 'apps/web', digest: `sha256:${'a'.repeat(64)}` }
    const operation = { ...server.manifest().operations[0]!, artifacts: [artifact] }
    const deploy = await startJob({ operations: [operation] })
    const sync = await startJob({ kind: 'sync', operations: [operation] })
    const context = await call(deploy.spec, 'GET', '/v1/context')
    expect(context.body['registry']).toMatchObject({ bearer: 'short-bearer' })
    await call(sync.spec, 'GET', '/v1/context')
    expect(grants).toEqual([
      {
        authorization: 'Bearer registry-key',
        body: {
          subject: deploy.manifest.jobId,
          ttlSeconds: 61,
          repositories: [
            { name: 'plugins/script', actions: ['pull'], roots: [`sha256:${'0'.repeat(64)}`] },
            { name: 'apps/web', actions: ['pull'], roots: [artifact.digest] },
          ],
        },
      },
      {
        authorization: 'Bearer registry-key',
        body: {
          subject: sync.manifest.jobId,
          ttlSeconds: 61,
          repositories: [
            { name: 'apps/web', actions: ['pull', 'push'] },
            { name: '*', actions: ['pull'] },
          ],
        },
      },
    ])
  })

  it('asks the server for a credential, also across a reconnect, and makes its address absolute', async () => {
    await startAgent()
    const { spec } = await startJob()
    const asked = call(spec, 'POST', '/v1/credentials/registry', {})
    await server.heard('credential.request')
    server.cut()
    await server.session(2)
    const requests = () => server.all('credential.request')
    await waitUntil('the second request', () => requests().length === 2)
    const { requestId } = requests()[1]!
    const expiresAt = new Date().toISOString()
    const credential = { want: 'registry' as const, registry: '/', bearer: 'b', repositories: [], expiresAt }
    server.send({ type: 'credential.grant', requestId, credential })
    expect(await asked).toEqual({ status: 200, body: { ...credential, registry: `${server.url}/` } })
    const refused = call(spec, 'POST', '/v1/credentials/registry', {})
    const { requestId: third } = await waitUntil('the third', () => requests()[2])
    server.send({ type: 'credential.refused', requestId: third, message: 'no lease' })
    expect(await refused).toMatchObject({ status: 403, body: { error: { code: 'forbidden' } } })
  })
})

describe('a sync', () => {
  const artifacts = ['a', 'b'].map((letter) => {
    return { name: letter, repository: `apps/${letter}`, digest: `sha256:${letter.repeat(64)}` }
  })

  it('is lent a folder that the next one of the same component finds again; other jobs have none', async () => {
    await startAgent()
    const operation = { ...server.manifest().operations[0]!, component: 'web' }
    const lent = async (changes: Parameters<ContractServer['manifest']>[0]) => {
      const { spec } = await startJob({ operations: [operation], ...changes })
      const { cacheDir } = (await call(spec, 'GET', '/v1/context')).body
      return { cacheDir, isMounted: spec.mounts.some((mount) => mount.writable && mount.path === cacheDir) }
    }
    const cacheDir = path.join(dir, 'agent', 'sync', 'web')
    expect(await lent({ kind: 'sync' })).toEqual({ cacheDir, isMounted: true })
    expect((await stat(cacheDir)).isDirectory()).toBe(true)
    expect(await lent({ kind: 'sync' })).toEqual({ cacheDir, isMounted: true })
    expect(await lent({ kind: 'deploy' })).toEqual({ cacheDir: undefined, isMounted: false })
  })

  it('is told of by digest, what failed included', async () => {
    await startAgent()
    const operation = { ...server.manifest().operations[0]!, artifacts }
    const { manifest, spec } = await startJob({ kind: 'sync', operations: [operation] })
    const told = [
      { digest: artifacts[0]!.digest, outcome: 'synced', bytesCopied: 12 },
      { digest: artifacts[1]!.digest, outcome: 'failed', code: 'signature_refused' },
    ]
    await call(spec, 'PUT', '/v1/result', { ok: false, message: 'no', data: { artifacts: told } })
    release(manifest.jobId)
    const { event } = await waitUntil('the event', () =>
      server.all('event').find((frame) => frame.event.action === 'agent.synced'),
    )
    expect(event).toMatchObject({ action: 'agent.synced', jobId: manifest.jobId })
    expect(event.details).toMatchObject({
      outcome: 'failed',
      artifacts: [
        { repository: 'apps/a', digest: artifacts[0]!.digest, outcome: 'synced', bytesCopied: 12 },
        { repository: 'apps/b', outcome: 'failed', code: 'signature_refused' },
      ],
    })
  })
})

describe('an attestation', () => {
  const artifact = { digest: `sha256:${'a'.repeat(64)}`, mediaType: 'm', size: 1, materials: [] }

  it('is asked of the server for a build', async () => {
    Object.assign(server, { role: 'build', installId: null })
    await startAgent()
    const { spec } = await startJob({ kind: 'build' })
    const asked = call(spec, 'POST', '/v1/attestations', artifact)
    const request = await server.heard('credential.request')
    expect(request).toMatchObject({ want: 'attestation', artifact })
    const credential = {
      want: 'attestation' as const,
      repository: 'apps/web',
      subject: { digest: artifact.digest, mediaType: 'm', size: 1 },
      bundles: [{ predicateType: 'p', text: '{}' }],
    }
    server.send({ type: 'credential.grant', requestId: request.requestId, credential })
    expect(await asked).toEqual({ status: 200, body: credential })
  })

  it('is not given to other jobs', async () => {
    await startAgent()
    const deploy = await startJob()
    expect((await call(deploy.spec, 'POST', '/v1/attestations', artifact)).status).toBe(403)
  })

  it('is not given for nothing', async () => {
    Object.assign(server, { role: 'build', installId: null })
    await startAgent()
    const build = await startJob({ kind: 'build' })
    expect((await call(build.spec, 'POST', '/v1/attestations', { digest: 'x' })).status).toBe(400)
    expect(server.all('credential.request')).toEqual([])
  })
})

describe('the folder of the socket', () => {
  it('lies in the agent’s folder, or in a short one where the kernel’s bound forbids that', () => {
    expect(chooseFolder('/var/lib/agent', '/tmp')).toBe('/var/lib/agent/api')
    const deep = `/var/${'x'.repeat(120)}`
    expect(chooseFolder(deep, '/tmp')).toMatch(/^\/tmp\/tenon-[0-9a-f]{16}$/)
    expect(chooseFolder(deep, '/tmp')).toBe(chooseFolder(`${deep}/`, '/tmp'))
    expect(chooseFolder(`${deep}y`, '/tmp')).not.toBe(chooseFolder(deep, '/tmp'))
  })
})
