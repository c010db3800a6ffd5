import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { BUNDLE_ANNOTATIONS, type JobManifest, type ManifestOperation } from '@tenon/core'
import {
  authorizeWith,
  createRegistryClient,
  createTokenIssuer,
  packFolder,
  parseDigest,
  pushArtifact,
  startRegistryServer,
  type RegistryClient,
  type RegistryServer,
  type RegistryServerOptions,
} from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { serveJobApi, soon, type JobApiServer, type JobRecord } from './job-api-server.ts'
import { bundlesFor, testSigner } from './signer.ts'
import {
  bundlePlugin,
  bundlePrograms,
  startProgram,
  type PluginName,
  type RunningProgram,
} from './programs.ts'

export const INSTALL_ID = 'ins_00000000000000000000000001'

export interface TestRegistry {
  server: RegistryServer
  client: RegistryClient
  bearer(ttlSeconds?: number): string
}

/** Bundled programs, real registries and job API sockets in one temporary folder; all of it gone after `close`. */
export class JobWorld {
  readonly dir: string
  readonly programs: string
  readonly #closers: (() => Promise<unknown>)[] = []
  #count = 0

  private constructor(dir: string) {
    this.dir = dir
    this.programs = join(dir, 'programs')
  }

  static async create(): Promise<JobWorld> {
    const world = new JobWorld(await mkdtemp(join(tmpdir(), 'tenon-plugins-')))
    await bundlePrograms(world.programs)
    return world
  }

  async registry(options: Partial<RegistryServerOptions> = {}): Promise<TestRegistry> {
    const issuer = createTokenIssuer(randomBytes(32))
    const server = await startRegistryServer({
      dir: this.#path('registry'),
      host: '127.0.0.1',
      port: 0,
      authorize: authorizeWith(issuer, Date.now),
      closeGraceMs: 100,
      ...options,
    })
    this.#closers.push(() => server.close())
    const repositories = [{ name: '*', actions: ['pull' as const, 'push' as const] }]
    const bearer = (ttlSeconds = 600) =>
      issuer.issue({ subject: 'test', repositories }, ttlSeconds, Date.now())
    const client = createRegistryClient({ url: server.url, credentials: async () => ({ bearer: bearer() }) })
    return { server, client, bearer }
  }

  /** Files by path, as an artifact with one folder layer; its digest. */
  async push(to: TestRegistry, repository: string, files: Files, artifactType: string): Promise<string> {
    return this.pushFolder(to, repository, await this.folder(files), artifactType)
  }

  /** One of our own plugins, as its artifact. */
  async pushPlugin(to: TestRegistry, name: PluginName): Promise<ManifestOperation['plugin']> {
    const repository = `plugins/${name}`
    const folder = join(this.programs, 'plugins', name)
    await bundlePlugin(name, folder)
    const digest = await this.pushFolder(to, repository, folder, MEDIA_TYPES.plugin)
    return { name, repository, digest }
  }

  async pushFolder(
    to: TestRegistry,
    repository: string,
    folder: string,
    artifactType: string,
  ): Promise<string> {
    const isPlugin = artifactType === MEDIA_TYPES.plugin
    const mediaType = isPlugin ? MEDIA_TYPES.pluginLayer : MEDIA_TYPES.folderLayer
    const layers = [{ mediaType, bytes: await packFolder(folder) }]
    return (await pushArtifact({ client: to.client, repository, artifactType, layers })).digest
  }

  /** Signature and provenance beside an artifact, by a signer of the test. */
  async sign(
    to: TestRegistry,
    repository: string,
    digest: string,
    bundles: { predicateType: string; text: string }[],
  ): Promise<void> {
    const { mediaType, size } = await to.client.getManifest(repository, digest)
    const subject = { mediaType, size, digest: parseDigest(digest) }
    for (const { predicateType, text } of bundles)
      await pushArtifact({
        client: to.client,
        repository,
        artifactType: MEDIA_TYPES.bundle,
        layers: [{ mediaType: MEDIA_TYPES.bundle, bytes: Buffer.from(text) }],
        annotations: { [BUNDLE_ANNOTATIONS.predicateType]: predicateType },
        subject,
      })
  }

  async folder(files: Files): Promise<string> {
    const folder = this.#path('content')
    await mkdir(folder)
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), content, { mode: path.endsWith('.sh') ? 0o755 : 0o644 })
    }
    return folder
  }

  async jobApi(
    operations: Partial<ManifestOperation>[],
    given: Partial<JobRecord> = {},
  ): Promise<JobApiServer> {
    const record = { ...emptyRecord(this.programs), manifest: manifestOf(operations), ...given }
    const api = await serveJobApi(this.#path('api.sock'), record)
    this.#closers.push(() => api.stop())
    return api
  }

  /** The job program, as the process runtime starts it. */
  async startJob(
    api: JobApiServer,
    more: Record<string, string> = {},
    under: string[] = [],
  ): Promise<RunningProgram & { folder: string }> {
    const folder = this.#path('job')
    await mkdir(folder)
    const tokenFile = join(folder, 'token')
    await writeFile(tokenFile, `${api.token}\n`, { mode: 0o600 })
    const env = { TENON_JOB_URL: `unix:${api.socketPath}`, TENON_JOB_TOKEN_FILE: tokenFile }
    const program = this.spawn(
      [join(this.programs, 'job.mjs')],
      { ...env, HOME: folder, TMPDIR: folder, ...more },
      folder,
      under,
    )
    return { ...program, folder }
  }

  spawn(
    args: string[],
    env: Record<string, string> = {},
    cwd = this.dir,
    under: string[] = [],
  ): RunningProgram {
    const program = startProgram(args, env, cwd, under)
    this.#closers.push(() => {
      program.child.kill('SIGTERM')
      const hard = setTimeout(() => program.child.kill('SIGKILL'), 10_000)
      return program.ended.finally(() => clearTimeout(hard))
    })
    return program
  }

  async close(): Promise<void> {
    for (const close of this.#closers.toReversed()) await close()
    await rm(this.dir, { recursive: true, force: true })
  }

  #path(name: string): string {
    this.#count += 1
    return join(this.dir, `${this.#count}-${name}`)
  }
}

type Files = Record<string, string>

const NO_DIGEST = `sha256:${'0'.repeat(64)}`

export function manifestOf(operations: Partial<ManifestOperation>[]): JobManifest {
  return {
    version: 2,
    serverId: 'test',
    jobId: 'job_00000000000000000000000001',
    fence: 1,
    kind: 'deploy',
    target: { role: 'install', installId: INSTALL_ID },
    role: null,
    network: { mode: 'open', names: [] },
    requires: [],
    content: NO_DIGEST,
    operations: operations.map((given) => ({
      operation: 'deploy',
      plugin: { name: 'script', repository: 'plugins/script', digest: null },
      component: 'web',
      artifacts: [],
      approvedPlan: null,
      config: {},
      configDigest: NO_DIGEST,
      ...given,
    })),
    limits: { memoryBytes: 1e9, cpus: 1, pids: 100, timeoutSeconds: 240, graceSeconds: 4 },
    issuedAt: '2026-11-15T00:00:00.000Z',
    notBefore: '2026-11-15T00:00:00.000Z',
    expiresAt: '2036-11-15T00:00:00.000Z',
  }
}

function emptyRecord(programs: string): Omit<JobRecord, 'manifest'> {
  return {
    context: {
      installId: INSTALL_ID,
      registry: null,
      hostSocket: null,
      serverUrl: 'http://127.0.0.1:9',
      programs,
    },
    secrets: {},
    outputs: {},
    registryCredential: () => ({ registry: 'http://127.0.0.1:9', bearer: 'none', expiresAt: soon() }),
    attest: ({ digest, mediaType, size }) => {
      const repository = 'apps/built'
      const bundles = bundlesFor({ repository, digest }, testSigner())
      return { repository, subject: { digest, mediaType, size }, bundles }
    },
    joinToken: () => 'join-token-of-test',
    asked: [],
    progress: [],
    putOutputs: undefined,
    result: undefined,
  }
}
