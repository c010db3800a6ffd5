import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { kept } from '../../ground/kept.ts'
import type { ExecOptions, JobExec } from '../runtime.ts'
import type { CreateContainer } from './container-spec.ts'
import { callEngine, EngineError, readAnswer, readText } from './engine-http.ts'
import type { EngineCall } from './engine-http.ts'
import { createServiceEngine } from './engine-services.ts'
import type { ServiceEngine } from './engine-services.ts'
import { execInContainer } from './exec-in-container.ts'
import { pullImage } from './pull-image.ts'
import type { RegistryAuth } from './pull-image.ts'
import type { CreateServiceContainer } from './service-spec.ts'

/** What jobs and services need of the Engine API, as Docker (from API 1.41 on) and Podman both serve it. */
export interface Engine extends ServiceEngine {
  about(): Promise<EngineAbout>
  /** Undefined when the engine does not have it. */
  image(reference: string): Promise<EngineImage | undefined>
  pull(reference: string, auth: RegistryAuth | undefined): Promise<void>
  create(name: string, container: CreateContainer | CreateServiceContainer): Promise<void>
  start(name: string): Promise<void>
  inspect(name: string): Promise<ContainerState | undefined>
  exec(name: string, command: string[], options: ExecOptions): Promise<JobExec>
  /** Resolves when the container does not run any more. */
  wait(name: string, signal: AbortSignal): Promise<void>
  /** A container that does not run is left alone. */
  kill(name: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
  /** Kills it when it runs; its volumes go with it. */
  remove(name: string): Promise<void>
  /** Those that have all the labels. */
  list(...labels: string[]): Promise<ListedContainer[]>
}

const versionSchema = z.object({
  Version: z.string(),
  ApiVersion: z.string().regex(/^\d+\.\d+$/),
  Components: z.array(z.object({ Name: z.string() })).nullish(),
})
const infoSchema = z.object({
  MemoryLimit: z.boolean().nullish(),
  SwapLimit: z.boolean().nullish(),
  CpuCfsQuota: z.boolean().nullish(),
  PidsLimit: z.boolean().nullish(),
  CgroupVersion: z.string().nullish(),
  SecurityOptions: z.array(z.string()).nullish(),
  Rootless: z.boolean().nullish(),
})
const imageSchema = z.object({
  Id: z.string(),
  Config: z
    .object({
      Env: z.array(z.string()).nullish(),
      Entrypoint: z.array(z.string()).nullish(),
      Cmd: z.array(z.string()).nullish(),
    })
    .nullish(),
})
const stateSchema = z.object({
  Config: z.object({ Labels: z.record(z.string(), z.string()).nullish() }),
  State: z.object({
    Status: z.string(),
    Running: z.boolean(),
    OOMKilled: z.boolean().nullish(),
    ExitCode: z.number(),
    Error: z.string().nullish(),
  }),
})
const listSchema = z.array(z.object({ Id: z.string(), Labels: z.record(z.string(), z.string()).nullish() }))

export interface EngineAbout {
  product: 'docker' | 'podman'
  version: string
  apiVersion: string
  cgroupVersion: string
  isRootless: boolean
  hasSelinux: boolean
  hasSeccomp: boolean
  /** Users inside are others outside, so that no job could enter its folder. */
  remapsUsers: boolean
  /** The limits that this engine cannot hold a job to. */
  missingLimits: string[]
}
export interface EngineImage {
  id: string
  command: string[]
  envNames: string[]
}
export interface ContainerState {
  labels: Record<string, string>
  status: string
  isRunning: boolean
  wasOomKilled: boolean
  exitCode: number
  error: string
}
export interface ListedContainer {
  id: string
  labels: Record<string, string>
}

const OLDEST_API = '1.41'
/** The newest one that this client was written against. */
const NEWEST_API = '1.47'
/** An engine under load answers 500 to a look at what another call just removes, and is well a moment later. */
const RETRIES = 3
const RETRY_MILLISECONDS = 50

/** The first of the sockets that is there is used, looked for when the engine is first needed. */
export function createEngine(socketPaths: string[]): Engine {
  const connected = kept(() => connect(socketPaths))
  const call = async (request: EngineCall) => {
    const { socketPath, prefix } = await connected()
    return callEngine(socketPath, { ...request, path: prefix + request.path })
  }
  const ask = <T>(schema: z.ZodType<T>, request: EngineCall) =>
    insist(request, async () => readAnswer(await call(request), schema))
  const tell = async (request: EngineCall) => {
    await ask(z.unknown(), request)
  }
  const inspect = async (name: string) => {
    const found = await orAbsent(ask(stateSchema, { method: 'GET', path: container(name, '/json') }))
    return found && containerOf(found)
  }

  return {
    ...createServiceEngine({ call, ask, tell }),
    async about() {
      const { version } = await connected()
      return aboutOf(version, await ask(infoSchema, { method: 'GET', path: '/info' }))
    },
    async image(reference) {
      const path = `/images/${reference.split('/').map(encodeURIComponent).join('/')}/json`
      const found = await orAbsent(ask(imageSchema, { method: 'GET', path }))
      return found && imageOf(found)
    },
    pull: (reference, auth) => pullImage(call, reference, auth),
    exec: (name, command, options) => execInContainer({ call, connected }, name, command, options),
    create: (name, body) => tell({ method: 'POST', path: '/containers/create', query: { name }, body }),
    start: (name) => tell({ method: 'POST', path: container(name, '/start') }),
    inspect,
    async wait(name, signal) {
      const path = container(name, '/wait')
      const query = { condition: 'not-running' }
      const answer = await call({ method: 'POST', path, query, signal, silenceMilliseconds: 0 })
      await readText(answer)
    },
    async kill(name, signal) {
      const request = { method: 'POST' as const, path: container(name, '/kill'), query: { signal } }
      await tell(request).catch(async (error: unknown) => {
        // Docker says 409 of a container that has ended, Podman 500.
        if (!(error instanceof EngineError) || (await inspect(name))?.isRunning) throw error
      })
    },
    async remove(name) {
      const query = { force: 'true', v: 'true' }
      await tell({ method: 'DELETE', path: container(name), query }).catch((error: unknown) => {
        const isGoing = error instanceof EngineError && ['not_found', 'conflict'].includes(error.code)
        if (!isGoing) throw error
      })
    },
    async list(...labels) {
      const query = { all: 'true', filters: JSON.stringify({ label: labels }) }
      const found = await ask(listSchema, { method: 'GET', path: '/containers/json', query })
      return found.map(({ Id, Labels }) => ({ id: Id, labels: Labels ?? {} }))
    },
  }
}

async function connect(socketPaths: string[]): Promise<Connection> {
  const socketPath = firstThere(socketPaths)
  const answer = await callEngine(socketPath, { method: 'GET', path: '/version' })
  const version = await readAnswer(answer, versionSchema)
  return { socketPath, prefix: `/v${chooseApi(version.ApiVersion)}`, version }
}

function container(name: string, verb = ''): string {
  return `/containers/${encodeURIComponent(name)}${verb}`
}

/** Only what changes nothing the second time: a POST may have been done though its answer was an error. */
async function insist<T>({ method }: EngineCall, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      const isPassing = error instanceof EngineError && error.code === 'failed'
      if (method === 'POST' || !isPassing || attempt === RETRIES) throw error
      await pause(RETRY_MILLISECONDS * 4 ** attempt)
    }
  }
}

function firstThere(socketPaths: string[]): string {
  const [first = ''] = socketPaths
  return socketPaths.find((socketPath) => existsSync(socketPath)) ?? first
}

/** Pure: an older engine is refused, a newer one asked in the words that are known here. */
export function chooseApi(offered: string): string {
  if (compareVersions(offered, OLDEST_API) < 0) {
    const message = `The container engine speaks API ${offered}; ${OLDEST_API} is needed. Update the engine.`
    throw new EngineError('refused', message)
  }
  return compareVersions(offered, NEWEST_API) > 0 ? NEWEST_API : offered
}

function compareVersions(one: string, other: string): number {
  const [major = 0, minor = 0] = one.split('.').map(Number)
  const [otherMajor = 0, otherMinor = 0] = other.split('.').map(Number)
  return major - otherMajor || minor - otherMinor
}

function aboutOf(version: z.infer<typeof versionSchema>, info: z.infer<typeof infoSchema>): EngineAbout {
  const security = info.SecurityOptions ?? []
  const has = (name: string) => security.some((option) => option.startsWith(`name=${name}`))
  const isPodman = version.Components?.some(({ Name }) => Name.startsWith('Podman')) ?? false
  const limits = {
    memory: info.MemoryLimit,
    swap: info.SwapLimit,
    cpu: info.CpuCfsQuota,
    pids: info.PidsLimit,
  }
  return {
    product: isPodman ? 'podman' : 'docker',
    version: version.Version,
    apiVersion: version.ApiVersion,
    cgroupVersion: info.CgroupVersion ?? '?',
    isRootless: info.Rootless === true || has('rootless'),
    hasSelinux: has('selinux'),
    hasSeccomp: has('seccomp'),
    remapsUsers: has('userns'),
    missingLimits: Object.entries(limits).flatMap(([name, isHeld]) => (isHeld === false ? [name] : [])),
  }
}

function imageOf({ Id, Config }: z.infer<typeof imageSchema>): EngineImage {
  return {
    id: Id,
    command: [...(Config?.Entrypoint ?? []), ...(Config?.Cmd ?? [])],
    envNames: (Config?.Env ?? []).map((line) => line.split('=', 1)[0] ?? ''),
  }
}

function containerOf({ Config, State }: z.infer<typeof stateSchema>): ContainerState {
  return {
    labels: Config.Labels ?? {},
    status: State.Status,
    isRunning: State.Running,
    wasOomKilled: State.OOMKilled ?? false,
    exitCode: State.ExitCode,
    error: State.Error ?? '',
  }
}

async function orAbsent<T>(asked: Promise<T>): Promise<T | undefined> {
  return asked.catch((error: unknown) => {
    if (error instanceof EngineError && error.code === 'not_found') return undefined
    throw error
  })
}

interface Connection {
  socketPath: string
  prefix: string
  version: z.infer<typeof versionSchema>
}
