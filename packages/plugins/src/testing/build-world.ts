import { execFile } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { spawn } from 'node:child_process'
import { cp } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { Json, ManifestOperation } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { soon, type JobRecord } from './job-api-server.ts'
import { JobWorld, type TestRegistry } from './job-world.ts'
import type { PluginName } from './programs.ts'

const run = promisify(execFile)

export interface BuildGiven {
  component?: { [key: string]: Json }
  source?: { kind: 'git'; repo: string; ref: string; directory: string } | { kind: 'folder' } | null
  /** Sent as the CLI sends a folder. */
  files?: Record<string, string>
  folder?: string
  /** Digest of a source that was sent before. */
  sent?: string
  images?: string[]
  repository?: string
  env?: Record<string, string>
  /** A program with its arguments that starts the job, such as one that confines. */
  under?: string[]
}

export interface BuildEnd {
  code: number | null
  output: string
  data: { [key: string]: Json }
  record: JobRecord
  jobFolder: string
}

export interface BuildWorld {
  world: JobWorld
  vendor: TestRegistry
  build(given: BuildGiven): Promise<BuildEnd>
  /** A repository served over git's own HTTP protocol; each call adds a commit. */
  gitRepository(): Promise<GitRepository>
  close(): Promise<void>
}

/** The job program, the plugin as its artifact and a real vendor registry: a build as a build agent would have it run. */
export async function createBuildWorld(type: PluginName): Promise<BuildWorld> {
  const world = await JobWorld.create()
  const vendor = await world.registry()
  const plugin = await world.pushPlugin(vendor, type)
  const closers: (() => Promise<unknown>)[] = []
  return {
    world,
    vendor,
    build: async (given) => {
      const operation = await operationOf(world, vendor, plugin, given)
      const api = await world.jobApi([operation], {
        context: {
          installId: null,
          hostSocket: null,
          serverUrl: vendor.server.url,
          programs: world.programs,
          registry: null,
        },
        registryCredential: () => ({
          registry: vendor.server.url,
          bearer: vendor.bearer(),
          expiresAt: soon(),
        }),
      })
      const job = await world.startJob(api, given.env, given.under)
      const code = await job.ended
      return {
        code,
        output: job.output(),
        data: api.record.result?.data ?? {},
        record: api.record,
        jobFolder: job.folder,
      }
    },
    gitRepository: async () => {
      const served = await serveGit(await world.folder({}))
      closers.push(served.close)
      return served
    },
    close: async () => {
      for (const close of closers) await close()
      await world.close()
    },
  }
}

async function operationOf(
  world: JobWorld,
  vendor: TestRegistry,
  plugin: ManifestOperation['plugin'],
  given: BuildGiven,
): Promise<Partial<ManifestOperation>> {
  const { files, folder } = given
  let digest = given.sent
  if (files) digest = await world.push(vendor, 'tenon/sources', files, MEDIA_TYPES.source)
  if (folder) digest = await world.pushFolder(vendor, 'tenon/sources', folder, MEDIA_TYPES.source)
  return {
    operation: 'build',
    plugin,
    artifacts: digest === undefined ? [] : [{ name: 'source', repository: 'tenon/sources', digest }],
    config: {
      component: given.component ?? {},
      repository: given.repository ?? 'apps/demo/part',
      source: (given.source ?? (digest === undefined ? null : { kind: 'folder' })) as Json,
      images: given.images ?? [],
    },
  }
}

export interface GitRepository {
  url: string
  /** Puts the files of a folder into a new commit on `main`; its id. */
  commit(folder: string): Promise<string>
  git(...args: string[]): Promise<string>
  close(): Promise<void>
}

async function serveGit(folder: string): Promise<GitRepository> {
  const env = { PATH: process.env['PATH'], HOME: folder, GIT_CONFIG_NOSYSTEM: '1' }
  const author = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main']
  const git = async (...args: string[]) =>
    (await run('git', [...author, ...args], { cwd: folder, env })).stdout.trim()
  await git('init', '--quiet')
  const server = createServer((request, response) => {
    const [path = '', query = ''] = (request.url ?? '').split('?')
    const backend = spawn('git', ['http-backend'], {
      env: {
        ...env,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: path.replace(/^\/repository\.git/, '/.git'),
        QUERY_STRING: query,
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
    })
    request.pipe(backend.stdin)
    const chunks: Buffer[] = []
    backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    backend.on('close', () => {
      const all = Buffer.concat(chunks)
      const end = all.indexOf('\r\n\r\n')
      const lines = all.subarray(0, end).toString().split('\r\n')
      const headers = lines.map((line) => line.split(': ') as [string, string])
      const status = headers.find(([name]) => name === 'Status')?.[1]
      response.writeHead(
        status === undefined ? 200 : Number.parseInt(status, 10),
        Object.fromEntries(headers),
      )
      response.end(all.subarray(end + 4))
    })
  })
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}/repository.git`,
    git,
    commit: async (from) => {
      await cp(from, folder, { recursive: true, verbatimSymlinks: true })
      await git('add', '--all')
      await git('commit', '--quiet', '--allow-empty', '-m', 'more')
      return git('rev-parse', 'HEAD')
    },
    close: () => closeServer(server),
  }
}

/** On a free port of this machine. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
