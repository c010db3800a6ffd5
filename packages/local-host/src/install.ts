import { mkdir, readdir, realpath, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ApplyResult, InstallStatus, UnitSpec } from '@tenon/protocol/local-host'
import { unitNameSchema } from '@tenon/protocol/local-host'
import { closing, HostError, isCode } from './errors.ts'
import { PortBook } from './ports.ts'
import { Unit } from './unit.ts'
import type { UnitContext } from './unit.ts'

type Kind = 'system' | 'services'

/** One install: its folder, its system units, its services and its ports. */
export class Install {
  readonly id: string
  readonly folder: string
  readonly socketPath: string
  readonly ports: PortBook
  readonly #context: InstallContext
  readonly #units: Record<Kind, Map<string, Unit>> = { system: new Map(), services: new Map() }
  readonly #problems: string[] = []
  #closed = false

  constructor(id: string, folder: string, socketPath: string, context: InstallContext) {
    this.id = id
    this.folder = folder
    this.socketPath = socketPath
    this.#context = context
    this.ports = new PortBook(join(folder, 'ports.json'), context.random, context.takenPorts)
  }

  /** Brings back all that the folder says should run; what is broken there is reported, not fatal. */
  async start(): Promise<void> {
    for (const kind of ['system', 'services'] as const) {
      await mkdir(join(this.folder, kind), { recursive: true, mode: 0o700 })
    }
    this.#report(await this.ports.load(this.#context.now()))
    for (const kind of ['system', 'services'] as const) {
      const names = await readdir(join(this.folder, kind))
      await Promise.all(names.map((name) => this.#startUnit(kind, name)))
    }
  }

  async apply(kind: Kind, name: string, spec: UnitSpec, wait: Wait): Promise<ApplyResult> {
    if (this.#closed) throw closing(`The install ${this.id}`)
    await this.#checkBundle(spec)
    const unit = this.#units[kind].get(name) ?? this.#addUnit(kind, name)
    const { changed, version } = await unit.apply(spec)
    const waited = await unit.waitUntilHealthy(version, wait.seconds * 1000, wait.signal)
    return { ...waited, changed, unit: unit.status() }
  }

  /** The given system units, and no others. */
  async applySystem(specs: Record<string, UnitSpec>, wait: Wait): Promise<Record<string, ApplyResult>> {
    const superfluous = [...this.#units.system.keys()].filter((name) => !Object.hasOwn(specs, name))
    await Promise.all(superfluous.map((name) => this.removeUnit('system', name)))
    const applied = Object.entries(specs).map(
      async ([name, spec]) => [name, await this.apply('system', name, spec, wait)] as const,
    )
    return Object.fromEntries(await Promise.all(applied))
  }

  service(name: string): Unit {
    const unit = this.#units.services.get(name)
    if (unit) return unit
    const remedy = 'List the services of this install to see which there are.'
    throw new HostError('service_not_found', `There is no service ${name}.`, remedy)
  }

  services(): Unit[] {
    return [...this.#units.services.values()]
  }

  async removeUnit(kind: Kind, name: string): Promise<boolean> {
    const unit = this.#units[kind].get(name)
    if (!unit) return false
    await unit.remove()
    if (this.#units[kind].get(name) === unit) this.#units[kind].delete(name)
    return true
  }

  status(): InstallStatus {
    const of = (kind: Kind) => [...this.#units[kind].values()].map((unit) => unit.status())
    return {
      id: this.id,
      socketPath: this.socketPath,
      units: of('system'),
      services: of('services'),
      problems: [...this.#problems],
    }
  }

  async close({ stopServices }: { stopServices: boolean }): Promise<void> {
    this.#closed = true
    const units = [...this.#units.services.values(), ...this.#units.system.values()]
    const ends = await Promise.allSettled(units.map((unit) => (stopServices ? unit.stop() : unit.detach())))
    // One that cannot be stopped must not keep the others running.
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  /** The folder is renamed first, so that a removal cut short is not taken for an install. */
  async remove(): Promise<void> {
    await this.close({ stopServices: true })
    const doomed = join(dirname(this.folder), `.removed-${this.id}-${this.#context.now()}`)
    await rename(this.folder, doomed)
    await rm(doomed, { recursive: true, force: true })
  }

  async #startUnit(kind: Kind, name: string): Promise<void> {
    if (!unitNameSchema.safeParse(name).success) {
      return this.#report(`${join(this.folder, kind, name)} is not a unit's folder; it is left alone`)
    }
    this.#report(await this.#addUnit(kind, name).start())
  }

  #addUnit(kind: Kind, name: string): Unit {
    const isAgent = kind === 'system' && name === 'agent'
    const unit = new Unit(name, join(this.folder, kind, name), {
      ...this.#context,
      installId: this.id,
      agentEnv: isAgent ? this.#context.agentEnv : undefined,
    })
    this.#units[kind].set(name, unit)
    return unit
  }

  /** A job may hand over its own folders, never those of another install on this machine. */
  async #checkBundle(spec: UnitSpec): Promise<void> {
    if (spec.bundlePath === undefined) return
    try {
      const path = await realpath(spec.bundlePath)
      const all = await realpath(dirname(this.folder))
      if (!isIn(path, all) && !isIn(all, path)) return
      if (isIn(path, await realpath(this.folder))) return
    } catch (error) {
      if (!isCode(error, 'ENOENT')) throw error
      return
    }
    const remedy = 'Give a folder of this install or one outside the local-host folder.'
    throw new HostError('bundle_invalid', `${spec.bundlePath} belongs to another install.`, remedy)
  }

  #report(problem: string | undefined): void {
    if (problem === undefined) return
    this.#problems.push(problem)
    this.#context.log.error({ install: this.id }, problem)
  }
}

function isIn(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`)
}

export interface Wait {
  seconds: number
  signal: AbortSignal
}

export interface InstallContext extends Omit<UnitContext, 'installId'> {
  takenPorts: () => ReadonlySet<number>
}
