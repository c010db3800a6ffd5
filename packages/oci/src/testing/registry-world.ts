import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type {
  RegistryClient,
  RegistryClientOptions,
  RegistryServer,
  RegistryServerOptions,
} from '../index.ts'
import { authorizeWith, createRegistryClient, createTokenIssuer, startRegistryServer } from '../index.ts'
import type { Grant } from '../index.ts'

export const NOW = 1_800_000_000_000

/** Real registries on real sockets in one temporary folder, all gone after `close`. */
export interface RegistryWorld {
  dir: string
  start(options?: Partial<RegistryServerOptions>): Promise<RegistryServer & { dir: string }>
  token(repositories: Grant['repositories'], ttlSeconds?: number): string
  client(
    server: { url: string },
    bearer: string | undefined,
    options?: Partial<RegistryClientOptions>,
  ): RegistryClient
  close(): Promise<void>
}

export const createRegistryWorld = async (): Promise<RegistryWorld> => {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-oci-'))
  const issuer = createTokenIssuer(randomBytes(32))
  const servers: RegistryServer[] = []
  return {
    dir,
    start: async (options = {}) => {
      const folder = options.dir ?? join(dir, `registry-${servers.length}`)
      const server = await startRegistryServer({
        host: '127.0.0.1',
        port: 0,
        authorize: authorizeWith(issuer, () => NOW),
        closeGraceMs: 200,
        ...options,
        dir: folder,
      })
      servers.push(server)
      return { ...server, dir: folder }
    },
    token: (repositories, ttlSeconds = 60) =>
      issuer.issue({ subject: 'test', repositories }, ttlSeconds, NOW),
    client: (server, bearer, options = {}) =>
      createRegistryClient({
        url: server.url,
        credentials: async () => (bearer === undefined ? undefined : { bearer }),
        retry: { baseDelayMs: 10, maxDelayMs: 200 },
        ...options,
      }),
    close: async () => {
      await Promise.all(servers.map((server) => server.close()))
      await rm(dir, { recursive: true, force: true })
    },
  }
}

export const allFiles = async (dir: string): Promise<string[]> =>
  (await readdir(dir, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const WAIT_MS = 60_000

export const waitFor = async (what: string, condition: () => Promise<boolean>): Promise<void> => {
  const deadline = Date.now() + WAIT_MS
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
