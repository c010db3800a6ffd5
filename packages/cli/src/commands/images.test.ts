import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { PRODUCT_VERSION } from '@tenon/protocol'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createHome } from '../testing/run-cli.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../..', import.meta.url))
const has = (name: string, ...args: string[]) => spawnSync(name, args, { timeout: 20_000 }).status === 0
const canBuild = has('busybox', 'true')
const hasRegistry = has('docker-registry', '--version')

let dir: string
let dist: string
let image: { file: string; digest: string }
const children: ChildProcess[] = []

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-images-'))
  dist = join(dir, 'dist')
  await mkdir(join(dist, 'images'), { recursive: true })
  if (!canBuild) return
  const args = [join(root, 'scripts/images.mjs'), '--bare', '--outdir', join(dist, 'images')]
  image = JSON.parse((await run(process.execPath, args)).stdout) as typeof image
})
afterAll(async () => {
  for (const child of children) await ended(child)
  await rm(dir, { recursive: true, force: true })
})

async function ended(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once('close', resolve))
  child.kill('SIGTERM')
  await gone
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** The install registry's own program. */
async function startOurs(): Promise<{ host: string; keyFile: string }> {
  const program = join(dir, 'registry.mjs')
  const entry = join(root, 'packages/oci/src/main.ts')
  const require = "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);"
  const form = { bundle: true, platform: 'node', format: 'esm', logLevel: 'error' } as const
  await build({ entryPoints: [entry], outfile: program, ...form, banner: { js: require } })
  const keyFile = join(dir, 'registry.key')
  await writeFile(keyFile, randomBytes(32).toString('base64url'), { mode: 0o600 })
  const args = [program, '--dir', join(dir, 'ours'), '--port', '0', '--key-file', keyFile]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  for await (const chunk of child.stdout) {
    const url = /http:\S+/.exec(String(chunk))?.[0]
    if (url !== undefined) return { host: new URL(url).host, keyFile }
  }
  throw new Error('the registry ended')
}

async function startTheirs(): Promise<string> {
  const host = `127.0.0.1:${await freePort()}`
  const file = join(dir, 'config.yml')
  const storage = `storage: {filesystem: {rootdirectory: ${dir}/theirs}}`
  await writeFile(file, `version: 0.1\nlog: {level: error}\n${storage}\nhttp: {addr: '${host}'}\n`)
  children.push(spawn('docker-registry', ['serve', file], { stdio: 'ignore' }))
  const deadline = Date.now() + 30_000
  while (!(await fetch(`http://${host}/v2/`).catch(() => undefined))?.ok) {
    if (Date.now() > deadline) throw new Error('docker-registry did not start')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return host
}

describe.skipIf(!canBuild)(
  'pushing the job image (skipped where BusyBox is not installed)',
  { timeout: 90_000 },
  () => {
    it('into our own registry prints it by digest, with this version as its tag, and sends nothing twice', async () => {
      const { host, keyFile } = await startOurs()
      const home = await createHome()
      const argv = ['images', 'push', `${host}/tenon/job`, '--key-file', keyFile]
      const first = await home.run(argv, { dist })
      expect(first).toMatchObject({ code: 0, stdout: `${host}/tenon/job@${image.digest}\n` })
      const again = await home.run([...argv, '--json'], { dist })
      expect(JSON.parse(again.stdout)).toMatchObject({
        digest: image.digest,
        tag: PRODUCT_VERSION,
        transferredBytes: 0,
      })
      const denied = await home.run(['images', 'push', `${host}/tenon/job`], { dist })
      expect(denied.code).toBe(1)
      const wrong = join(dir, 'wrong.key')
      await writeFile(wrong, randomBytes(32).toString('base64url'))
      const refused = await home.run(['images', 'push', `${host}/tenon/job`, '--key-file', wrong], { dist })
      expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining('gives no access') as string })
    })

    it.skipIf(!hasRegistry)('into docker-registry (skipped where it is not installed)', async () => {
      const host = await startTheirs()
      const home = await createHome()
      const argv = ['images', 'push', `${host}/tenon/job:mine`, '--from', image.file]
      expect(await home.run(argv)).toMatchObject({ code: 0, stdout: `${host}/tenon/job@${image.digest}\n` })
      const accept = 'application/vnd.oci.image.manifest.v1+json'
      const stored = await fetch(`http://${host}/v2/tenon/job/manifests/mine`, { headers: { accept } })
      expect(stored.headers.get('docker-content-digest')).toBe(image.digest)
    })
  },
)

describe('images push', () => {
  it.each([
    [['images', 'push', 'no-registry'], 2, 'names no registry'],
    [['images', 'push', `localhost/x@sha256:${'0'.repeat(64)}`], 2, 'name a tag at most'],
    [['images', 'push', 'localhost/tenon/job', '--from', 'absent.tar'], 4, 'there is no image at'],
  ])('%s ends with %i and says why', async (argv, code, words) => {
    const ran = await (await createHome()).run(argv)
    expect(ran).toMatchObject({ code, stderr: expect.stringContaining(words) as string })
  })
})
