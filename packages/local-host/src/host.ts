import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { installIdSchema } from '@tenon/protocol/local-host'
import { closing, HostError } from './errors.ts'
import { lockFolder } from './folder-lock.ts'
import { Install } from './install.ts'
import type { InstallContext } from './install.ts'
import type { Logger } from './logger.ts'
import { adminRoutes, installRoutes } from './routes.ts'
import type { InstallKeeper } from './routes.ts'
import { adminSocket, installSocket, runtimeFolder } from './runtime-folder.ts'
import { serveOnSocket } from './socket-server.ts'
import type { SocketServer } from './socket-server.ts'

/**
 * One customer's machine: brings back every install found in `dir`, then serves the sockets. The path of
 * the admin socket also stands in `dir/admin.path`.
 */
export async function startLocalHost(options: LocalHostOptions): Promise<LocalHost> {
  const dir = resolve(options.dir)
  await mkdir(join(dir, 'installs'), { recursive: true, mode: 0o700 })
  await chmod(dir, 0o700)
  const unlock = await lockFolder(dir)
  try {
    const sockets = await runtimeFolder(dir)
    const host = new Host(dir, sockets, options)
    await host.start()
    const path = adminSocket(sockets)
    const admin = await serveOnSocket(path, adminRoutes(host), options.log)
    await writeFile(join(dir, 'admin.path'), `${path}\n`, { mode: 0o600 })
    options.log.info({ dir, adminSocket: path }, 'local-host is ready')
    return {
      adminSocket: path,
      close: async (how) => {
        await host.close(how)
        await admin.close()
        await unlock()
      },
    }
  } catch (error) {
    await unlock()
    throw error
  }
}

class Host implements InstallKeeper {
  readonly #installsFolder: string
  readonly #sockets: string
  readonly #context: InstallContext
  readonly #installs = new Map<string, { install: Install; server: SocketServer }>()
  #turn: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(dir: string, sockets: string, { log, clock, random, agentEnv }: LocalHostOptions) {
    this.#installsFolder = join(dir, 'installs')
    this.#sockets = sockets
    this.#context = {
      log,
      agentEnv,
      now: clock?.now ?? Date.now,
      random: random ?? Math.random,
      takenPorts: () => new Set(this.all().flatMap((install) => install.ports.taken())),
    }
  }

  async start(): Promise<void> {
    for (const name of await readdir(this.#installsFolder)) {
      if (installIdSchema.safeParse(name).success) await this.ensure(name)
      // What a removal that was cut short left behind.
      else if (name.startsWith('.removed-')) await rm(join(this.#installsFolder, name), { recursive: true })
    }
  }

  all(): Install[] {
    return [...this.#installs.values()].map(({ install }) => install)
  }

  get(id: string): Install {
    const found = this.#installs.get(id)
    if (found) return found.install
    const remedy = 'List the installs to see which there are.'
    throw new HostError('install_not_found', `There is no install ${id}.`, remedy)
  }

  ensure(id: string): Promise<Install> {
    return this.#inTurn(async () => {
      if (this.#closed) throw closing('The local-host')
      const known = this.#installs.get(id)
      if (known) return known.install
      const socketPath = installSocket(this.#sockets, id)
      const install = new Install(id, join(this.#installsFolder, id), socketPath, this.#context)
      await install.start()
      const server = await serveOnSocket(socketPath, installRoutes(install), this.#context.log)
      this.#installs.set(id, { install, server })
      return install
    })
  }

  remove(id: string): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#closed) throw closing('The local-host')
      const known = this.#installs.get(id)
      if (!known) return false
      await known.install.remove()
      await known.server.close()
      await rm(dirname(known.install.socketPath), { recursive: true, force: true })
      this.#installs.delete(id)
      this.#context.log.info({ install: id }, 'removed')
      return true
    })
  }

  close(how: { stopServices: boolean }): Promise<void> {
    this.#closed = true
    return this.#inTurn(async () => {
      await Promise.all(
        [...this.#installs.values()].map(async ({ install, server }) => {
          await install.close(how)
          await server.close()
        }),
      )
    })
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work)
    this.#turn = result.catch(() => undefined)
    return result
  }
}

export interface LocalHostOptions {
  dir: string
  log: Logger
  clock?: { now: () => number }
  random?: () => number
  /** What whoever runs this machine says to the agents of its installs, such as a proxy. */
  agentEnv?: Record<string, string>
}

export interface LocalHost {
  adminSocket: string
  /** With `stopServices: false` everything goes on running, and the next local-host adopts it. */
  close(how: { stopServices: boolean }): Promise<void>
}
