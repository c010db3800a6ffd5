import { createServer } from 'node:net'
import { z } from 'zod'
import { portNameSchema } from '@tenon/protocol/local-host'
import { HostError } from './errors.ts'
import { readStateFile, writeStateFile } from './state-file.ts'

/** Below what systems use for outgoing connections, so that none of those takes a reserved port. */
const FIRST_PORT = 20_000
const LAST_PORT = 29_999
const ATTEMPTS = 300
const MAX_PORTS_PER_INSTALL = 256

const portsFileSchema = z.strictObject({
  format: z.literal(1),
  ports: z.record(portNameSchema, z.int().min(1).max(65_535)),
})

/** The loopback ports of one install by name: given once, kept on disk. */
export class PortBook {
  readonly #path: string
  readonly #random: () => number
  readonly #takenByOthers: () => ReadonlySet<number>
  readonly #ports = new Map<string, number>()
  #turn: Promise<unknown> = Promise.resolve()

  constructor(path: string, random: () => number, takenByOthers: () => ReadonlySet<number>) {
    this.#path = path
    this.#random = random
    this.#takenByOthers = takenByOthers
  }

  async load(now: number): Promise<string | undefined> {
    const loaded = await readStateFile(this.#path, portsFileSchema, now)
    if (loaded.kind === 'broken') return loaded.problem
    if (loaded.kind === 'found') {
      for (const [name, port] of Object.entries(loaded.value.ports)) this.#ports.set(name, port)
    }
    return undefined
  }

  taken(): number[] {
    return [...this.#ports.values()]
  }

  allocate(name: string): Promise<number> {
    const result = this.#turn.then(() => this.#allocate(name))
    this.#turn = result.catch(() => undefined)
    return result
  }

  async #allocate(name: string): Promise<number> {
    const known = this.#ports.get(name)
    if (known !== undefined) return known
    if (this.#ports.size >= MAX_PORTS_PER_INSTALL) {
      throw unavailable(`This install has ${MAX_PORTS_PER_INSTALL} ports already.`)
    }
    const port = await this.#findFree()
    // Reserved before the write, so that another install asking meanwhile does not get it.
    this.#ports.set(name, port)
    try {
      await writeStateFile(this.#path, { format: 1, ports: Object.fromEntries(this.#ports) })
    } catch (error) {
      this.#ports.delete(name)
      throw error
    }
    return port
  }

  async #findFree(): Promise<number> {
    const span = LAST_PORT - FIRST_PORT + 1
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const port = FIRST_PORT + (Math.floor(this.#random() * span) % span)
      if ((await isFree(port)) && !this.#takenByOthers().has(port)) return port
    }
    throw unavailable(`No free port between ${FIRST_PORT} and ${LAST_PORT} was found.`)
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

function unavailable(message: string): HostError {
  return new HostError('port_unavailable', message, 'Remove installs or services that are no longer used.')
}
