import type { Json, ManifestOperation } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { serveGit, type GitRepository } from './git-server.ts'
import { soon, type JobRecord } from './job-api-server.ts'
import { JobWorld, type TestRegistry } from './job-world.ts'
import type { PluginName } from './programs.ts'

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
