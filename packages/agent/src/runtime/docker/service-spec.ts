import type { ServiceComparison, ServiceGeneration } from '@tenon/protocol'
import { z } from 'zod'
import { sha256 } from '../../ground/crypto.ts'
import type { WantedService } from '../services.ts'
import { LABELS } from './container-spec.ts'
import type { ServiceContainer } from './engine-services.ts'

/** Never the label of a job: what looks for jobs must not find services. */
export const SERVICE_LABELS = {
  service: 'tenon.service',
  generation: 'tenon.service.generation',
  id: 'tenon.service.id',
  replica: 'tenon.service.replica',
  /** All but the values of the environment, as JSON. */
  facts: 'tenon.service.facts',
  /** Tells two specifications apart, values included. */
  hash: 'tenon.service.hash',
  madeBy: 'tenon.service.made-by',
} as const

const PIDS = 1024
const STOP_SECONDS = 10
const LOG = { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '2' } }

const factsSchema = z.object({
  image: z.string(),
  replicas: z.number(),
  port: z.number(),
  command: z.array(z.string()).nullable(),
  envNames: z.array(z.string()),
})
type Facts = z.infer<typeof factsSchema>

export interface Generation {
  number: number
  id: string
  hash: string
  madeBy: string
  facts: Facts
  /** In the order of their numbers. */
  containers: ServiceContainer[]
}

export interface Arranged {
  current: Generation | undefined
  next: Generation | undefined
  /** What an attempt that was cut short left. */
  stale: Generation[]
}

/** As host names are written; the same on Kubernetes. */
export function hostOf(component: string): string {
  return component.replaceAll('_', '-')
}

export function networkName(agentKey: string): string {
  return `tenon-${agentKey}`
}

export function containerName(
  agentKey: string,
  component: string,
  generation: number,
  replica: number,
): string {
  return `tenon-service-${agentKey}-${component}.${generation}.${replica}`
}

export function hashOf({ image, replicas, port, command, env }: WantedService): string {
  const names = Object.keys(env).toSorted()
  const parts = [image, replicas, port, command ?? null, names.map((name) => [name, env[name]])]
  return sha256(Buffer.from(JSON.stringify(parts)))
}

/**
 * Pure: which generation serves. One does when all its replicas answer to the component's name; the newest such, since
 * the older ones are being removed then. Where none is whole, it is the oldest that answers at all: a newer one was just
 * about to.
 */
export function arrange(containers: readonly ServiceContainer[], network: string, host: string): Arranged {
  const all = generationsOf(containers)
  const answers = ({ networks }: ServiceContainer) => networks[network]?.aliases.includes(host) ?? false
  const isWhole = (each: Generation) =>
    each.containers.length === each.facts.replicas && each.containers.every(answers)
  const current = all.findLast(isWhole) ?? all.find((each) => each.containers.some(answers))
  const newest = all.at(-1)
  const isNext = newest !== undefined && newest !== current && newest.number > (current?.number ?? 0)
  const next = isNext ? newest : undefined
  return { current, next, stale: all.filter((each) => each !== current && each !== next) }
}

function generationsOf(containers: readonly ServiceContainer[]): Generation[] {
  const found = new Map<number, Generation>()
  const replica = ({ labels }: ServiceContainer) => Number(labels[SERVICE_LABELS.replica])
  for (const container of containers.toSorted((a, b) => replica(a) - replica(b))) {
    const { labels } = container
    const facts = factsOf(labels[SERVICE_LABELS.facts])
    const number = Number(labels[SERVICE_LABELS.generation])
    if (facts === undefined || !Number.isSafeInteger(number)) continue
    const known = found.get(number)
    if (known) known.containers.push(container)
    else {
      const id = labels[SERVICE_LABELS.id] ?? ''
      const hash = labels[SERVICE_LABELS.hash] ?? ''
      const madeBy = labels[SERVICE_LABELS.madeBy] ?? ''
      found.set(number, { number, id, hash, madeBy, facts, containers: [container] })
    }
  }
  return [...found.values()].toSorted((a, b) => a.number - b.number)
}

function factsOf(text: string | undefined): Facts | undefined {
  try {
    return factsSchema.safeParse(JSON.parse(text ?? '')).data
  } catch {
    return undefined
  }
}

/** Pure: whether exactly this runs, all of it. */
export function isRunningAs({ hash, facts, containers }: Generation, wanted: WantedService): boolean {
  return (
    hash === hashOf(wanted) &&
    containers.length === facts.replicas &&
    containers.every(({ isRunning }) => isRunning)
  )
}

/** Pure: what differs, field by field; of command and environment, which may hold secrets, only that they do. */
export function compareService(
  current: Generation | undefined,
  wanted: WantedService,
): ServiceComparison['changes'] {
  if (current?.hash === hashOf(wanted)) return []
  const was = current?.facts
  const before: Record<string, string | null> = {
    image: was?.image ?? null,
    replicas: was === undefined ? null : String(was.replicas),
    port: was === undefined ? null : String(was.port),
  }
  const after: Record<string, string | null> = {
    image: wanted.image,
    replicas: String(wanted.replicas),
    port: String(wanted.port),
  }
  const fields = Object.keys(after).filter((field) => before[field] !== after[field])
  return [
    ...fields.map((field) => ({ field, before: before[field] ?? null, after: after[field] ?? null })),
    ...hiddenChange('command', shown(was?.command), shown(wanted.command)),
    ...envChanges(current, wanted.env),
  ]
}

function envChanges(
  current: Generation | undefined,
  env: Record<string, string>,
): ServiceComparison['changes'] {
  const lines = new Set(current?.containers[0]?.env)
  const known = current?.facts.envNames ?? []
  const names = [...new Set([...known, ...Object.keys(env)])].toSorted()
  return names.flatMap((name) => {
    const isKnown = known.includes(name)
    const value = env[name]
    const is = value === undefined ? null : `${name}=${value}`
    const was = !isKnown ? null : is !== null && lines.has(is) ? is : ''
    return hiddenChange(`env.${name}`, was, is)
  })
}

function shown(command: readonly string[] | null | undefined): string | null {
  return command ? JSON.stringify(command) : null
}

function hiddenChange(field: string, was: string | null, is: string | null): ServiceComparison['changes'] {
  if (was === is) return []
  const after = is === null ? null : was === null ? 'set' : 'changed'
  return [{ field, before: was === null ? null : 'set', after }]
}

export function shownGeneration({ id, facts, containers }: Generation, network: string): ServiceGeneration {
  return {
    id,
    image: facts.image,
    wanted: facts.replicas,
    port: facts.port,
    replicas: containers.map((container) => ({
      name: container.name,
      number: Number(container.labels[SERVICE_LABELS.replica]),
      state: container.status,
      isRunning: container.isRunning,
      // Both engines say 0 of one that runs again.
      exitCode: container.isRunning || container.status === 'created' ? null : container.exitCode,
      wasOomKilled: container.wasOomKilled,
      restarts: container.restarts,
      error: container.error,
      address: container.networks[network]?.address || null,
    })),
  }
}

export interface ServiceParts {
  agentKey: string
  component: string
  wanted: WantedService
  /** The engine's own id of the image. */
  imageId: string
  generation: { number: number; id: string }
  replica: number
  jobId: string
  memoryBytes: number
}

/** Pure: the body of `POST /containers/create`. Whoever may use the engine sees the environment by `inspect`. */
export function buildServiceContainer(parts: ServiceParts): CreateServiceContainer {
  const { agentKey, component, wanted, generation, memoryBytes } = parts
  const { image, replicas, port, command, env } = wanted
  const facts: Facts = { image, replicas, port, command: command ?? null, envNames: Object.keys(env) }
  const network = networkName(agentKey)
  return {
    Image: parts.imageId,
    ...(command === undefined ? {} : { Entrypoint: command, Cmd: [] }),
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    Labels: {
      [LABELS.agent]: agentKey,
      [SERVICE_LABELS.service]: component,
      [SERVICE_LABELS.generation]: String(generation.number),
      [SERVICE_LABELS.id]: generation.id,
      [SERVICE_LABELS.replica]: String(parts.replica),
      [SERVICE_LABELS.facts]: JSON.stringify(facts),
      [SERVICE_LABELS.hash]: hashOf(wanted),
      [SERVICE_LABELS.madeBy]: parts.jobId,
    },
    StopTimeout: STOP_SECONDS,
    HostConfig: {
      CapDrop: ['ALL'],
      Privileged: false,
      SecurityOpt: ['no-new-privileges'],
      // Without capabilities a low port is bound only where none is privileged.
      Sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' },
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      PidsLimit: PIDS,
      IpcMode: 'private',
      NetworkMode: network,
      RestartPolicy: { Name: 'unless-stopped' },
      LogConfig: LOG,
    },
    NetworkingConfig: { EndpointsConfig: { [network]: {} } },
  }
}

export interface CreateServiceContainer {
  Image: string
  Entrypoint?: string[]
  Cmd?: string[]
  Env: string[]
  Labels: Record<string, string>
  StopTimeout: number
  HostConfig: {
    CapDrop: string[]
    Privileged: boolean
    SecurityOpt: string[]
    Sysctls: Record<string, string>
    Memory: number
    MemorySwap: number
    PidsLimit: number
    IpcMode: string
    NetworkMode: string
    RestartPolicy: { Name: string }
    LogConfig: { Type: string; Config: Record<string, string> }
  }
  NetworkingConfig: { EndpointsConfig: Record<string, object> }
}
