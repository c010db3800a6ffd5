import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRegistryClient, pushArtifact } from './index.ts'

const key = randomBytes(32).toString('base64url')
const everything = [{ name: '*', actions: ['pull', 'push'] }]

describe('the registry program', () => {
  let dir: string
  let url = ''
  const ends: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'tenon-registry-'))
    await writeFile(join(dir, 'key'), `${key}\n`, { mode: 0o600 })
    await build({
      entryPoints: [fileURLToPath(new URL('main.ts', import.meta.url))],
      outfile: join(dir, 'registry.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'error',
      banner: {
        js: "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);",
      },
    })
    const { output } = start({
      TENON_REGISTRY_DIR: join(dir, 'data'),
      TENON_REGISTRY_PORT: '0',
      TENON_REGISTRY_KEY_FILE: join(dir, 'key'),
    })
    url = await output(/^registry listens at (http:\/\/127\.0\.0\.1:\d+)$/m)
  })
  afterAll(async () => {
    for (const end of ends) await end()
    await rm(dir, { recursive: true })
  })

  const start = (env: Record<string, string>) => {
    const child = spawn(process.execPath, [join(dir, 'registry.mjs')], { env, stdio: 'pipe' })
    let text = ''
    const look: (() => void)[] = []
    const heard = (chunk: Buffer) => {
      text += chunk.toString()
      for (const each of look) each()
    }
    child.stdout.on('data', heard)
    child.stderr.on('data', heard)
    const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
    ends.push(() => {
      child.kill('SIGTERM')
      return ended
    })
    const output = (pattern: RegExp) =>
      new Promise<string>((resolve, reject) => {
        look.push(() => {
          const [whole, part] = pattern.exec(text) ?? []
          if (whole !== undefined) resolve(part ?? whole)
        })
        void ended.then(() => reject(new Error(`it ended: ${text}`)))
      })
    return { child, ended, output, text: () => text }
  }
  const ask = (body: unknown, bearer = key) =>
    fetch(`${url}/token`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bearer}` },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })

  it('trades the key for a bearer that opens exactly what was asked for', async () => {
    const grant = async (repositories: unknown) => {
      const answer = await ask({ subject: 'job', ttlSeconds: 60, repositories })
      expect(answer.status).toBe(200)
      expect(answer.headers.get('cache-control')).toBe('no-store')
      const { bearer, expiresAt } = (await answer.json()) as { bearer: string; expiresAt: string }
      expect(Date.parse(expiresAt) - Date.now()).toBeLessThanOrEqual(60_000)
      return createRegistryClient({ url, credentials: async () => ({ bearer }), retry: { attempts: 1 } })
    }
    const all = await grant(everything)
    const layers = [{ mediaType: 'text/plain', bytes: randomBytes(100) }]
    const push = (client: typeof all, repository: string) =>
      pushArtifact({ client, repository, artifactType: 'application/vnd.test', layers })
    const { digest } = await push(all, 'apps/a')
    await push(all, 'apps/b')
    const pull = await grant([{ name: 'apps/a', actions: ['pull'] }])
    expect((await pull.getManifest('apps/a', digest)).digest).toBe(digest)
    await expect(pull.getManifest('apps/b', digest)).rejects.toMatchObject({ code: 'DENIED' })
    await expect(push(pull, 'apps/c')).rejects.toMatchObject({ code: 'DENIED' })
    const one = await grant([{ name: '*', actions: ['pull'], digests: [`sha256:${'0'.repeat(64)}`] }])
    await expect(one.getManifest('apps/a', digest)).rejects.toMatchObject({ code: 'DENIED' })
  })

  it.each(['', 'x', key.slice(0, -1), `${key}x`])('gives nothing for the key %j', async (wrong) => {
    const answer = await ask({ subject: 'job', ttlSeconds: 60, repositories: everything }, wrong)
    expect(answer.status).toBe(401)
    expect(await answer.text()).not.toContain(key)
  })

  it.each([
    'no json',
    '[]',
    'null',
    { subject: '', ttlSeconds: 60, repositories: [] },
    { subject: 'a', ttlSeconds: 86_401, repositories: [] },
    { subject: 'a', ttlSeconds: 0, repositories: [] },
    { subject: 'a', ttlSeconds: 1.5, repositories: [] },
    { subject: 'a', ttlSeconds: 60, repositories: 'all' },
    { subject: 'a', ttlSeconds: 60, repositories: [null] },
    { subject: 'a', ttlSeconds: 60, repositories: [{ name: '../x', actions: ['pull'] }] },
    { subject: 'a', ttlSeconds: 60, repositories: [{ name: '*', actions: ['delete'] }] },
  ])('refuses the request %j', async (body) => {
    const answer = await ask(body)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ errors: [{ code: 'UNSUPPORTED' }] })
  })

  it('refuses a body without end, other methods and other addresses', async () => {
    expect((await ask('x'.repeat(100_000))).status).toBe(413)
    expect((await fetch(`${url}/token`)).status).toBe(405)
    expect((await fetch(`${url}/healthz`, { method: 'POST' })).status).toBe(405)
    expect((await fetch(`${url}/elsewhere`)).status).toBe(404)
    expect((await fetch(`${url}/constructor`)).status).toBe(404)
    expect((await fetch(`${url}/v2/`)).status).toBe(401)
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
  })

  it('says what is wrong when it cannot start', async () => {
    const port = new URL(url).port
    const env = { TENON_REGISTRY_DIR: join(dir, 'other'), TENON_REGISTRY_KEY_FILE: join(dir, 'key') }
    const busy = start({ ...env, TENON_REGISTRY_PORT: port })
    expect(await busy.ended).toBe(1)
    expect(busy.text()).toContain(`cannot listen on 127.0.0.1:${port}`)
    const bare = start({})
    expect(await bare.ended).toBe(1)
    expect(bare.text()).toContain('Usage:')
    await writeFile(join(dir, 'short'), 'abc')
    const short = start({ ...env, TENON_REGISTRY_PORT: '0', TENON_REGISTRY_KEY_FILE: join(dir, 'short') })
    expect(await short.ended).toBe(1)
    expect(short.text()).not.toContain('abc')
  })

  it('ends in order on SIGTERM', async () => {
    const env = { TENON_REGISTRY_DIR: join(dir, 'third'), TENON_REGISTRY_KEY_FILE: join(dir, 'key') }
    const { child, ended, output } = start({ ...env, TENON_REGISTRY_PORT: '0' })
    await output(/listens/)
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  })
})
