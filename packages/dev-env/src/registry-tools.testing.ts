import {
  anonymous,
  createFileStorage,
  createRegistryClient,
  pushArtifact,
  sha256Digest,
  startRegistryServer,
  type Digest,
} from '@tenon/oci'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { buildPrograms } from './programs.ts'
import { createWorld, type ServerHandle, type World } from './world.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL'] ?? ''
const run = promisify(execFile)

export const TOOLS = process.env['TENON_TEST_TOOLS'] ?? join(homedir(), '.cache/tenon-tools/bin')

/** A server with a really built app of a script, an image and a chart. */
export interface ToolGround {
  server: ServerHandle
  /** By the name of the component. */
  artifacts: Map<string, { repository: string; digest: Digest }>
  person(name: string, role?: 'viewer' | 'operator'): Promise<Person>
  /** Puts the two signatures of an artifact back into the form in which the first versions wrote them. */
  signAsBefore(component: string): Promise<void>
  restart(): Promise<void>
  close(): Promise<void>
}

export interface Person {
  home: string
  /** The folder in which the tools run. */
  work: string
  tokenId: string
  tenon(...args: string[]): Promise<string>
  /** A tool as this person has it; it throws with what was printed. */
  tool(program: string, ...args: string[]): Promise<string>
  files(): string[]
}

export async function openToolGround(): Promise<ToolGround> {
  const dir = mkdtempSync(join(tmpdir(), 'tenon-registry-tools-'))
  const closing: (() => unknown)[] = [() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 })]
  const close = async () => {
    for (const one of closing.toReversed()) await one()
  }
  try {
    const { dist, remove } = await buildPrograms(root)
    closing.push(remove)
    const databaseUrl = await newDatabase(closing)
    const world = createWorld({ dir, dist, onStart: (program) => closing.push(() => program.stop()) })
    const start = (port = 0) => world.startServer({ port, env: { DATABASE_URL: databaseUrl } })
    const server = await start()
    await world.startAgent(server, { name: 'build-agent', role: 'build' })
    const app = writeApp(join(dir, 'shop'), await serveImage(world, closing))
    const person: ToolGround['person'] = (name, role = 'viewer') => newPerson(dist, world, server, name, role)
    await (await person('builder', 'operator')).tenon('builds', 'create', app)
    const { items } = await server.client.call('artifacts.list', { query: {} })
    const artifacts = new Map(
      items.map(({ component, repository, digest }) => [component, { repository, digest: digest as Digest }]),
    )
    return {
      server,
      artifacts,
      person,
      async signAsBefore(component) {
        await signAsBefore(world, artifacts.get(component)!)
        // The first versions made no note of what they had signed.
        await query(databaseUrl, 'update server_key set signed_form = 0')
      },
      async restart() {
        await server.program.stop()
        Object.assign(server, await start(Number(new URL(server.url).port)))
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function newPerson(
  dist: string,
  world: World,
  { client, url }: ServerHandle,
  name: string,
  role: 'viewer' | 'operator',
): Promise<Person> {
  const { secret, token } = await client.call('tokens.create', { body: { name, role } })
  const home = world.folder(join('people', name))
  const work = join(home, 'work')
  mkdirSync(work)
  const env = {
    PATH: `${TOOLS}:${process.env['PATH']}`,
    HOME: home,
    XDG_RUNTIME_DIR: join(home, 'run'),
    KUBECONFIG: '/dev/null',
  }
  const call = async (program: string, args: string[], more = {}) => {
    const options = { env: { ...env, ...more }, cwd: work, timeout: 100_000, maxBuffer: 1 << 24 }
    const { stdout } = await run(program, args, options).catch(
      (error: Error & { stdout: string; stderr: string }) => {
        throw new Error(`${program} ${args.join(' ')}: ${error.stdout}${error.stderr}`)
      },
    )
    return stdout
  }
  const signedIn = { TENON_URL: url, TENON_TOKEN: secret }
  return {
    home,
    work,
    tokenId: token.id,
    tenon: (...args) => call(process.execPath, [join(dist, 'cli.mjs'), ...args], signedIn),
    tool: (program, ...args) => call(program, args),
    files: () => readdirSync(work).toSorted(),
  }
}

async function newDatabase(closing: (() => unknown)[]): Promise<string> {
  const name = `registry_tools_${randomBytes(6).toString('hex')}`
  await query(clusterUrl, `create database ${name}`)
  closing.push(() => query(clusterUrl, `drop database if exists ${name} with (force)`))
  return Object.assign(new URL(clusterUrl), { pathname: name }).href
}

async function query(connectionString: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** Where the app's image comes from. */
async function serveImage(world: World, closing: (() => unknown)[]): Promise<string> {
  const upstream = await startRegistryServer({
    dir: world.folder('upstream'),
    host: '127.0.0.1',
    port: 0,
    authorize: async () => ({ ok: true }),
  })
  closing.push(() => upstream.close())
  // Two empty blocks are an archive without files.
  const layer = Buffer.alloc(1024)
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

function writeApp(folder: string, image: string): string {
  const scripts = ['deploy.sh', 'destroy.sh', 'status.sh'].map((name) => [`src/hello/${name}`, '#!/bin/sh\n'])
  const files: Record<string, string> = {
    'metadata.toml': 'version = "v2"\ndisplay_name = "Shop"\ndescription = "d"\n',
    'components/hello.toml': 'name = "hello"\ntype = "script"\nsource = "../src/hello"\n',
    'components/web.toml': `name = "web"\ntype = "container_image"\n[public]\nimage_url = "${image}"\ntag = "1.0"\n`,
    'components/site.toml':
      'name = "site"\ntype = "helm_chart"\nchart_name = "site"\nsource = "../src/site"\n',
    'src/site/Chart.yaml': 'apiVersion: v2\nname: site\nversion: 1.2.3\n',
    'src/site/templates/map.yaml': 'kind: ConfigMap\napiVersion: v1\nmetadata: { name: site }\n',
    ...Object.fromEntries(scripts),
  }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text, { mode: 0o755 })
  }
  return folder
}

async function signAsBefore(
  world: World,
  { repository, digest }: { repository: string; digest: Digest },
): Promise<void> {
  const storage = await createFileStorage(join(world.folder('server'), 'registry'))
  for (const referrer of await storage.listReferrers(repository, digest)) {
    const found = (await storage.getManifest(repository, referrer.digest))!
    const manifest = JSON.parse(Buffer.from(found.bytes).toString()) as {
      layers: { digest: Digest; size: number }[]
    }
    const layer = manifest.layers[0]!
    const bundle = (await json(await storage.openBlob(repository, layer.digest))) as {
      verificationMaterial: { publicKey: { hint: string } }
      dsseEnvelope: { signatures: { keyid?: string }[] }
    }
    bundle.dsseEnvelope.signatures[0]!.keyid = bundle.verificationMaterial.publicKey.hint
    const bytes = Buffer.from(JSON.stringify(bundle))
    const upload = await storage.createUpload(repository)
    await storage.appendUpload(repository, upload, 0, Readable.from([bytes]))
    await storage.commitUpload(repository, upload, sha256Digest(bytes))
    Object.assign(layer, { digest: sha256Digest(bytes), size: bytes.byteLength })
    const changed = Buffer.from(JSON.stringify(manifest))
    const descriptor = { ...referrer, digest: sha256Digest(changed), size: changed.byteLength }
    await storage.deleteManifest(repository, referrer.digest)
    const stored = { ...found, digest: descriptor.digest, bytes: changed }
    await storage.putManifest(repository, stored, { referrer: { subject: digest, descriptor } })
  }
}
