import { anonymous, createRegistryClient, pushArtifact, sha256Digest, startRegistryServer } from '@tenon/oci'
import { execFile, spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Program } from './program.ts'
import { buildPrograms } from './programs.ts'
import { until } from './until.ts'
import { createWorld, type ServerHandle, type World } from './world.ts'

/** Other people's programs against the vendor registry of a real server, signed in as docs/vendors.md says. */

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL'] ?? ''
const TOOLS = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')
const run = promisify(execFile)
const isAbsent = (tool: string) => !existsSync(join(TOOLS, tool))
const noSkopeo = spawnSync('skopeo', ['--version'], { timeout: 60_000 }).status !== 0

const dir = mkdtempSync(join(tmpdir(), 'tenon-registry-tools-'))
const closing: (() => unknown)[] = []
let dist: string
let world: World
let server: ServerHandle
let host: string
let artifacts: Map<string, { repository: string; digest: string }>

interface Person {
  home: string
  tokenId: string
  tenon(...args: string[]): Promise<string>
  /** A tool as this person has it, in a folder of its own; it throws with what was printed. */
  tool(name: string, ...args: string[]): Promise<string>
  files(): string[]
}

async function person(name: string, role: 'viewer' | 'operator' = 'viewer', at = server): Promise<Person> {
  const { secret, token } = await at.client.call('tokens.create', { body: { name, role } })
  const home = world.folder(join('people', name))
  const folder = join(home, 'work')
  mkdirSync(folder)
  const env = {
    PATH: `${TOOLS}:${process.env['PATH']}`,
    HOME: home,
    XDG_RUNTIME_DIR: join(home, 'run'),
    KUBECONFIG: '/dev/null',
  }
  const of = async (program: string, args: string[], more = {}) => {
    const options = { env: { ...env, ...more }, cwd: folder, timeout: 100_000, maxBuffer: 1 << 24 }
    const { stdout } = await run(program, args, options).catch(
      (error: Error & { stdout: string; stderr: string }) => {
        throw new Error(`${program} ${args.join(' ')}: ${error.message}${error.stdout}${error.stderr}`)
      },
    )
    return stdout
  }
  const signedIn = { TENON_URL: at.url, TENON_TOKEN: secret }
  return {
    home,
    tokenId: token.id,
    tenon: (...args) => of(process.execPath, [join(dist, 'cli.mjs'), ...args], signedIn),
    tool: (program, ...args) => of(program, args),
    files: () => readdirSync(folder).toSorted(),
  }
}

beforeAll(async () => {
  const programs = await buildPrograms(root)
  dist = programs.dist
  closing.push(programs.remove, () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }))
  world = createWorld({ dir, dist, onStart: (program: Program) => closing.push(() => program.stop()) })
  server = await world.startServer({ env: { DATABASE_URL: await newDatabase() } })
  host = new URL(server.url).host
  await world.startAgent(server, { name: 'build-agent', role: 'build' })
  const app = writeApp(await serveImage())
  const owner = await person('builder', 'operator')
  await owner.tenon('builds', 'create', app)
  const { items } = await server.client.call('artifacts.list', { query: {} })
  artifacts = new Map(items.map((item) => [item.component, item]))
}, 240_000)
afterAll(async () => {
  for (const one of closing.toReversed()) await one()
}, 60_000)

async function newDatabase(): Promise<string> {
  const name = `registry_tools_${randomBytes(6).toString('hex')}`
  const administer = async (statement: string) => {
    const client = new pg.Client({ connectionString: clusterUrl })
    await client.connect()
    await client.query(statement).finally(() => client.end())
  }
  await administer(`create database ${name}`)
  closing.unshift(() => administer(`drop database if exists ${name} with (force)`))
  return Object.assign(new URL(clusterUrl), { pathname: name }).href
}

/** Where the app's image comes from. */
async function serveImage(): Promise<string> {
  const upstream = await startRegistryServer({
    dir: world.folder('upstream'),
    host: '127.0.0.1',
    port: 0,
    authorize: async () => ({ ok: true }),
  })
  closing.push(() => upstream.close())
  const layer = Buffer.alloc(1024, 'image')
  const rootfs = { type: 'layers', diff_ids: [sha256Digest(layer)] }
  const config = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', config: {}, rootfs }))
  const mediaType = 'application/vnd.oci.image.config.v1+json'
  await pushArtifact({
    client: createRegistryClient({ url: upstream.url, credentials: anonymous }),
    repository: 'acme/web',
    artifactType: mediaType,
    config: { mediaType, bytes: config },
    layers: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', bytes: layer }],
    tag: '1.0',
  })
  return `${new URL(upstream.url).host}/acme/web`
}

function writeApp(image: string): string {
  const scripts = ['deploy.sh', 'destroy.sh', 'status.sh'].map((name) => [`src/hello/${name}`, '#!/bin/sh\n'])
  const files: Record<string, string> = {
    'metadata.toml': 'version = "v2"\ndisplay_name = "Shop"\ndescription = "d"\n',
    'components/hello.toml': 'name = "hello"\ntype = "script"\nsource = "../src/hello"\n',
    'components/web.toml': `name = "web"\ntype = "container_image"\n[public]\nimage_url = "${image}"\ntag = "1.0"\n`,
    'components/site.toml': 'name = "site"\ntype = "helm_chart"\nchart_name = "site"\nsource = "../src/site"\n',
    'src/site/Chart.yaml': 'apiVersion: v2\nname: site\nversion: 1.2.3\n',
    'src/site/templates/map.yaml': 'kind: ConfigMap\napiVersion: v1\nmetadata: { name: site }\n',
    ...Object.fromEntries(scripts),
  }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, 'shop', path)), { recursive: true })
    writeFileSync(join(dir, 'shop', path), text, { mode: 0o755 })
  }
  return join(dir, 'shop')
}

const byTag = (component: string) => `${host}/apps/shop/${component}:v1`
const byDigest = (component: string) => `${host}/apps/shop/${component}@${artifacts.get(component)!.digest}`

describe.skipIf(isAbsent('oras'))('oras (skipped where scripts/test-tools.mjs did not run)', () => {
  it('writes the file of an artifact, by its version or its digest, and lists versions and signatures', async () => {
    const anna = await person('oras')
    await anna.tenon('registry', 'login', '--tool', 'oras')
    await anna.tool('oras', 'pull', '--plain-http', byTag('hello'))
    expect(anna.files()).toEqual(['script.tar.gz'])
    await anna.tool('tar', '-xzf', 'script.tar.gz')
    expect(anna.files()).toEqual(['deploy.sh', 'destroy.sh', 'script.tar.gz', 'status.sh'])
    await anna.tool('oras', 'pull', '--plain-http', byDigest('site'))
    expect(anna.files()).toContain('site-1.2.3.tgz')
    const { digest } = JSON.parse(
      await anna.tool('oras', 'manifest', 'fetch', '--descriptor', '--plain-http', byTag('hello')),
    ) as { digest: string }
    expect(digest).toBe(artifacts.get('hello')!.digest)
    const tags = (component: string) =>
      anna.tool('oras', 'repo', 'tags', '--plain-http', `${host}/apps/shop/${component}`)
    expect([await tags('hello'), await tags('site')]).toEqual(['v1\n', '1.2.3\nv1\n'])
    const found = await anna.tool('oras', 'discover', '--plain-http', '--format', 'json', byTag('hello'))
    expect(found.match(/"artifactType": "application\/vnd.dev.sigstore.bundle.v0.3\+json"/g)).toHaveLength(2)
  })

  it('cannot push, nor read what was sent for builds', async () => {
    const anna = await person('pusher', 'operator')
    await anna.tenon('registry', 'login')
    writeFileSync(join(anna.home, 'work', 'mine'), 'mine')
    const push = anna.tool('oras', 'push', '--plain-http', `${host}/apps/shop/hello:v2`, 'mine')
    await expect(push).rejects.toThrow(/denied|403/i)
    const read = anna.tool('oras', 'repo', 'tags', '--plain-http', `${host}/tenon/sources`)
    await expect(read).rejects.toThrow(/denied|403/i)
  })

  it('is refused once the API token is revoked, after logout, and by another server', async () => {
    const [gone, out, stranger] = [await person('gone'), await person('out'), await person('stranger')]
    const pull = (who: Person) => who.tool('oras', 'manifest', 'fetch', '--plain-http', byTag('hello'))
    for (const who of [gone, out, stranger]) await who.tenon('registry', 'login')
    for (const who of [gone, out]) expect(await pull(who)).toContain('schemaVersion')
    await server.client.call('tokens.revoke', { params: { id: gone.tokenId } })
    await expect(pull(gone)).rejects.toThrow(/401|unauthorized/i)
    const file = join(out.home, '.docker', 'config.json')
    const kept = readFileSync(file)
    expect(await out.tenon('registry', 'logout')).toContain(file)
    await expect(pull(out)).rejects.toThrow(/401|unauthorized|credential/i)
    writeFileSync(file, kept)
    await expect(pull(out)).rejects.toThrow(/401|unauthorized/i)

    const other = await world.startServer({ name: 'other', env: { DATABASE_URL: await newDatabase() } })
    const auths = readFileSync(join(stranger.home, '.docker', 'config.json'), 'utf8')
    const moved = auths.replaceAll(host, new URL(other.url).host)
    writeFileSync(join(stranger.home, '.docker', 'config.json'), moved)
    const elsewhere = `${new URL(other.url).host}/tenon/plugins/script`
    await expect(stranger.tool('oras', 'repo', 'tags', '--plain-http', elsewhere)).rejects.toThrow(
      /401|unauthorized/i,
    )
    const native = await person('native', 'viewer', other)
    await native.tenon('registry', 'login')
    expect(await native.tool('oras', 'repo', 'tags', '--plain-http', elsewhere)).toMatch(/^\d+\.\d+\.\d+\n$/)
  })
})

describe.skipIf(noSkopeo)('skopeo (skipped where it is not installed)', () => {
  it('inspects and copies what was built, through the file that podman has too', async () => {
    const anna = await person('skopeo')
    expect(await anna.tenon('registry', 'login', '--tool', 'skopeo')).toContain(
      join(anna.home, 'run', 'containers', 'auth.json'),
    )
    const read = ['--tls-verify=false', `docker://${byTag('web')}`]
    const image = JSON.parse(await anna.tool('skopeo', 'inspect', ...read)) as { Digest: string; RepoTags: string[] }
    expect(image).toMatchObject({ Digest: artifacts.get('web')!.digest, RepoTags: ['v1'] })
    const policy = join(anna.home, 'policy.json')
    writeFileSync(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
    const copy = (component: string) =>
      anna.tool(
        'skopeo',
        ...['--policy', policy, 'copy', '--preserve-digests', '--src-tls-verify=false'],
        ...[`docker://${byDigest(component)}`, `oci:${component}:v1`],
      )
    for (const component of ['web', 'hello']) await copy(component)
    const digest = artifacts.get('web')!.digest.replace('sha256:', '')
    expect(existsSync(join(anna.home, 'work', 'web', 'blobs', 'sha256', digest))).toBe(true)
  })
})

describe.each(['helm3', 'helm4'])('%s (skipped where scripts/test-tools.mjs did not run)', (helm) => {
  it.skipIf(isAbsent(helm))('pulls and renders a chart that was built', async () => {
    const anna = await person(helm)
    await anna.tenon('registry', 'login', '--tool', 'helm')
    const chart = [`oci://${host}/apps/shop/site`, '--plain-http']
    await anna.tool(helm, 'pull', ...chart, '--version', '1.2.3')
    expect(anna.files()).toEqual(['site-1.2.3.tgz'])
    expect(await anna.tool(helm, 'template', 'x', ...chart)).toContain('kind: ConfigMap')
  })
})

describe.skipIf(isAbsent('cosign'))('cosign (skipped where scripts/test-tools.mjs did not run)', () => {
  const OFFLINE = ['--key', 'tenon.pub', '--insecure-ignore-tlog=true']

  async function verifier(name: string): Promise<Person> {
    const anna = await person(name)
    await anna.tenon('registry', 'login', '--tool', 'cosign', 'oras')
    writeFileSync(join(anna.home, 'work', 'tenon.pub'), await anna.tenon('keys', 'export', '--pem'))
    return anna
  }

  it('verifies the signature and the provenance of every artifact with the exported key', async () => {
    const anna = await verifier('cosign')
    const remote = [...OFFLINE, '--allow-http-registry']
    for (const component of artifacts.keys()) {
      const signed = await anna.tool('cosign', 'verify', ...remote, byTag(component))
      expect(signed).toContain(artifacts.get(component)!.digest)
      const told = await anna.tool(
        'cosign',
        ...['verify-attestation', '--type', 'slsaprovenance1', ...remote, byDigest(component)],
      )
      const { payload } = JSON.parse(told) as { payload: string }
      const statement = JSON.parse(Buffer.from(payload, 'base64').toString()) as object
      expect(statement).toMatchObject({ subject: [{ name: `apps/shop/${component}` }] })
    }
  })

  it('refuses them under another key', async () => {
    const anna = await verifier('another-key')
    const { publicKey } = generateKeyPairSync('ed25519')
    writeFileSync(join(anna.home, 'work', 'tenon.pub'), publicKey.export({ format: 'pem', type: 'spki' }))
    await expect(
      anna.tool('cosign', 'verify', ...OFFLINE, '--allow-http-registry', byTag('hello')),
    ).rejects.toThrow(/signature/i)
  })

  it('verifies what was pulled, without any registry', async () => {
    const anna = await verifier('blobs')
    const { digest } = artifacts.get('hello')!
    const plain = ['--plain-http']
    await anna.tool('oras', 'manifest', 'fetch', ...plain, '--output', 'manifest.json', byDigest('hello'))
    const found = JSON.parse(
      await anna.tool('oras', 'discover', ...plain, '--format', 'json', byDigest('hello')),
    ) as { referrers: { digest: string; annotations: Record<string, string> }[] }
    const predicate = 'https://slsa.dev/provenance/v1'
    const { digest: bundle } = found.referrers.find(
      ({ annotations }) => annotations['dev.sigstore.bundle.predicateType'] === predicate,
    )!
    const manifest = JSON.parse(
      await anna.tool('oras', 'manifest', 'fetch', ...plain, `${host}/apps/shop/hello@${bundle}`),
    ) as { layers: { digest: string }[] }
    const [layer] = manifest.layers
    await anna.tool(
      'oras',
      ...['blob', 'fetch', ...plain, '--output', 'bundle.json', `${host}/apps/shop/hello@${layer!.digest}`],
    )
    expect(sha256Digest(readFileSync(join(anna.home, 'work', 'manifest.json')))).toBe(digest)
    const verify = ['verify-blob-attestation', '--bundle', 'bundle.json', '--type', 'slsaprovenance1', ...OFFLINE]
    await anna.tool('cosign', ...verify, 'manifest.json')
    writeFileSync(join(anna.home, 'work', 'manifest.json'), '{}')
    await expect(anna.tool('cosign', ...verify, 'manifest.json')).rejects.toThrow(/digest|subject/i)
  })
})
