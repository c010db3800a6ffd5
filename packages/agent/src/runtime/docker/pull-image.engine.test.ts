import { execFile } from 'node:child_process'
import { once } from 'node:events'
import type { ChildProcess } from 'node:child_process'
import { readdir, readFile, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pullBearer } from '../../ground/registry-access.ts'
import { createDockerRuntime } from './docker-runtime.ts'
import { buildTestImage, bundleProgram, missingFor, startEngine } from './engines.testing.ts'
import type { EngineName, TestEngine } from './engines.testing.ts'
import { authHeader, splitReference } from './pull-image.ts'

const run = promisify(execFile)
const proxy = { httpsProxy: undefined, httpProxy: undefined, noProxy: undefined }
const KEY = Buffer.alloc(32, 7).toString('base64url')

describe('the login of a registry', () => {
  it('is told to the engine without what is not URL-safe', () => {
    const header = authHeader({ username: 'a', password: '>>>???' }, 'host:5000/x/y@sha256:1')
    expect(header).toMatch(/^[\w-]+$/)
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({
      username: 'a',
      password: '>>>???',
      serveraddress: 'host:5000',
    })
  })

  it.each(['host:5000/a/b@sha256:12', 'host:5000/a/b:v1', 'host:5000/a/b:v1@sha256:12'])(
    'is for the repository of %s',
    (reference) => {
      expect(splitReference(reference)).toEqual({ host: 'host:5000', repository: 'a/b' })
    },
  )
})

for (const name of ['docker', 'podman'] as const) {
  const missing = await missingFor(name)
  const title = missing === undefined ? name : `${name} (${missing})`
  describe.skipIf(missing !== undefined)(
    `an image that ${title} pulls from the install registry`,
    { timeout: 120_000 },
    () => {
      describePulls(name)
    },
  )
}

function describePulls(name: EngineName): void {
  let world: TestEngine
  let registry: ChildProcess | undefined
  let image: string
  let bearer: string

  beforeAll(async () => {
    world = await startEngine(name)
    const program = await bundleProgram('packages/oci/src/main.ts', path.join(world.dir, 'registry.mjs'))
    await writeFile(path.join(world.dir, 'key'), KEY, { mode: 0o600 })
    const pushing = await startRegistry(world, program, 'outside')
    const settings = { url: pushing.url, keyFile: path.join(world.dir, 'key') }
    const { digest } = await pushTestImage(world.dir, pushing.url)
    bearer = await pullBearer(settings, 'tenon/job', proxy)
    await stopped(pushing.child)
    registry = (await startRegistry(world, program, 'beside')).child
    image = `127.0.0.1:5000/tenon/job@${digest}`
  })
  afterAll(async () => {
    if (registry !== undefined) await stopped(registry)
    await world.close()
  })

  const open = (password: string) =>
    createDockerRuntime({
      socketPaths: [world.socketPath],
      dir: path.join(world.dir, 'jobs'),
      log: pino({ level: 'silent' }),
      agentKey: 'pull-test',
      image,
      registryAuth: async () => ({ username: 'tenon', password }),
    })
  const spec = {
    jobId: 'pulled',
    fence: 1,
    command: ['true'],
    env: { PATH: '/bin' },
    files: {},
    mounts: [],
    network: 'internal' as const,
    ownNetwork: { env: {}, isDemanded: true },
    limits: { memoryBytes: 64 << 20, cpus: 1, pids: 32, timeoutSeconds: 60, graceSeconds: 1 },
  }

  it('is refused with a wrong login, in words that hold no secret', async () => {
    const runtime = open('wrong-password')
    expect((await runtime.describe()).warnings).toContainEqual(
      expect.stringContaining('not on the engine yet'),
    )
    const failure = await runtime.start(spec).catch((error: unknown) => error)
    expect(failure).toMatchObject({ reason: 'image' })
    expect(String(failure)).not.toContain('wrong-password')
  })

  it('comes by digest with the right one, once', async () => {
    const runtime = open(bearer)
    await runtime.start(spec)
    expect(await runtime.wait('pulled', new AbortController().signal)).toMatchObject({ reason: 'completed' })
    await runtime.remove('pulled')
    expect((await runtime.describe()).warnings).not.toContainEqual(
      expect.stringContaining('not on the engine yet'),
    )
  })
}

/** In the network of this test to push, then in the engine's own, over the same files. */
async function startRegistry(
  world: TestEngine,
  program: string,
  where: 'outside' | 'beside',
): Promise<{ child: ChildProcess; url: string }> {
  const port = where === 'beside' ? '5000' : '0'
  const args = [program, '--dir', path.join(world.dir, 'registry'), '--port', port]
  const options = ['--key-file', path.join(world.dir, 'key')]
  const child =
    where === 'beside'
      ? world.spawnBeside(process.execPath, [...args, ...options])
      : execFile(process.execPath, [...args, ...options])
  const died = once(child, 'exit').then(() => Promise.reject(new Error('The registry did not start.')))
  const [line] = await Promise.race([once(child.stdout ?? child, 'data'), died])
  died.catch(() => undefined)
  return { child, url: /http\S+/.exec(String(line))?.[0] ?? '' }
}

async function stopped(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  await gone
}

async function pushTestImage(dir: string, url: string): Promise<{ digest: string }> {
  const built = await buildTestImage(dir)
  const layout = path.join(dir, 'layout')
  await mkdir(layout)
  await run('tar', ['-xf', built.file, '-C', layout])
  const headers = { authorization: `Bearer ${await pushBearer(url)}` }
  const base = `${url}/v2/tenon/job`
  const blobs = path.join(layout, 'blobs/sha256')
  for (const hex of await readdir(blobs)) {
    if (built.digest.endsWith(hex)) continue
    const opened = await fetch(`${base}/blobs/uploads/`, { method: 'POST', headers })
    const place = new URL(opened.headers.get('location') ?? '', url)
    place.searchParams.set('digest', `sha256:${hex}`)
    const body = await readFile(path.join(blobs, hex))
    const put = await fetch(place, { method: 'PUT', headers, body })
    expect(put.status).toBe(201)
  }
  const manifest = await readFile(path.join(blobs, built.digest.replace('sha256:', '')))
  const type = { 'content-type': 'application/vnd.oci.image.manifest.v1+json' }
  const put = await fetch(`${base}/manifests/${built.digest}`, {
    method: 'PUT',
    headers: { ...headers, ...type },
    body: manifest,
  })
  expect(put.status).toBe(201)
  return built
}

async function pushBearer(url: string): Promise<string> {
  const repositories = [{ name: 'tenon/job', actions: ['pull', 'push'] }]
  const answer = await fetch(`${url}/token`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}` },
    body: JSON.stringify({ subject: 'test', ttlSeconds: 600, repositories }),
  })
  return ((await answer.json()) as { bearer: string }).bearer
}
