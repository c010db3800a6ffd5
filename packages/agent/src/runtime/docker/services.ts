import { randomUUID } from 'node:crypto'
import type { BroughtService, ServiceState } from '@tenon/protocol'
import type { Logger } from 'pino'
import { RuntimeError } from '../runtime.ts'
import { ServiceError } from '../services.ts'
import type { Services, WantedService } from '../services.ts'
import { LABELS } from './container-spec.ts'
import type { Engine } from './engine.ts'
import { EngineError } from './engine-http.ts'
import { removeContainer } from './remove-container.ts'
import {
  arrange,
  buildServiceContainer,
  compareService,
  containerName,
  hostOf,
  isRunningAs,
  networkName,
  SERVICE_LABELS,
  shownGeneration,
} from './service-spec.ts'
import type { Arranged, Generation } from './service-spec.ts'
import { haveImage } from './start-container.ts'
import type { ImageContext } from './start-container.ts'

const STOP_SECONDS = 10
const MAX_LOG_BYTES = 65_536
/** No component has this name: it stands for what all of them share. */
const NETWORK = ''

export interface DockerServicesOptions extends ImageContext {
  engine: Engine
  agentKey: string
  /** Of each replica. */
  memoryBytes: number
  /** The container of a job. */
  nameOf(jobId: string): string
  log: Logger
}

export interface DockerServices extends Services {
  /** Removes what the job brought up and did not settle, as a job does that was killed half way. */
  leftBy(jobId: string): Promise<void>
}

/** Services as containers of the same engine that runs the jobs, in a network of their own. */
export function createDockerServices(given: DockerServicesOptions): DockerServices {
  const turns = createTurns()
  const options = { ...given, turns }
  const { engine, agentKey } = options
  const network = networkName(agentKey)
  const stateOf = (component: string, { current, next }: Arranged): ServiceState => ({
    host: hostOf(component),
    current: current ? shownGeneration(current, network) : null,
    next: next ? shownGeneration(next, network) : null,
  })
  const look = async (component: string) => stateOf(component, await find(options, component))
  return {
    look,
    async compare(component, wanted) {
      return { changes: compareService((await find(options, component)).current, wanted) }
    },
    bring: (component, wanted, jobId) =>
      turns(component, async () => {
        const changed = await bring(options, component, wanted, jobId)
        return { ...(await look(component)), changed } satisfies BroughtService
      }),
    settle: (component, keep) =>
      turns(component, async () => {
        await settle(options, component, keep)
        return look(component)
      }),
    remove: (component) => turns(component, () => removeAll(options, component)),
    async logs(component, lines) {
      const { current, next } = await find(options, component)
      const containers = [current, next].flatMap((generation) => generation?.containers ?? [])
      const replicas = containers.map(async ({ name }) => {
        return { name, text: await engine.lastLines(name, lines, MAX_LOG_BYTES) }
      })
      return { replicas: await Promise.all(replicas) }
    },
    admit: (jobId) => admit(options, jobId),
    async leftBy(jobId) {
      const made = await engine.list(`${LABELS.agent}=${agentKey}`, `${SERVICE_LABELS.madeBy}=${jobId}`)
      for (const component of new Set(made.map(({ labels }) => labels[SERVICE_LABELS.service] ?? ''))) {
        await turns(component, async () => {
          const { next } = await find(options, component)
          if (next?.madeBy !== jobId) return
          options.log.warn(
            { component, jobId },
            'a job left a service unsettled; what it brought up is removed',
          )
          await removeGeneration(options, next)
          await leaveNetwork(options)
        })
      }
    },
  }
}

async function find(options: Context, component: string): Promise<Arranged> {
  const { engine, agentKey } = options
  const labels = [`${LABELS.agent}=${agentKey}`, `${SERVICE_LABELS.service}=${component}`]
  const listed = await engine.list(...labels)
  const containers = await Promise.all(listed.map(({ id }) => engine.service(id)))
  const there = containers.filter((container) => container !== undefined)
  return arrange(there, networkName(agentKey), hostOf(component))
}

/** Whether something was brought up. */
async function bring(
  options: Context,
  component: string,
  wanted: WantedService,
  jobId: string,
): Promise<boolean> {
  const { engine, agentKey, log } = options
  const { current, next, stale } = await find(options, component)
  for (const generation of stale) await removeGeneration(options, generation)
  if (next && next.madeBy === jobId && isRunningAs(next, wanted)) return true
  if (next) await removeGeneration(options, next)
  if (current && isRunningAs(current, wanted)) return false
  const { id: imageId } = await imageOf(options, wanted.image)
  const generation = { number: (current?.number ?? 0) + 1, id: randomUUID() }
  const { memoryBytes } = options
  const make = async () => {
    await engine.createNetwork(networkName(agentKey), { [LABELS.agent]: agentKey })
    await admit(options, jobId)
    for (let replica = 1; replica <= wanted.replicas; replica++) {
      const name = containerName(agentKey, component, generation.number, replica)
      const parts = { agentKey, component, wanted, imageId, generation, replica, jobId, memoryBytes }
      await engine.create(name, buildServiceContainer(parts))
      await engine.start(name)
    }
  }
  try {
    await options.turns(NETWORK, make)
  } catch (cause) {
    const made = (await find(options, component)).next
    if (made) await removeGeneration(options, made)
    if (!(cause instanceof EngineError) || cause.code === 'unreachable') throw cause
    const message = `The engine does not start ${component}: ${cause.message}`
    throw new ServiceError('start', message, 'Correct the command or the image, then deploy again.', {
      cause,
    })
  }
  log.info({ component, jobId, image: wanted.image, generation }, 'a generation of a service was brought up')
  return true
}

async function imageOf(options: Context, image: string): Promise<{ id: string }> {
  try {
    return await haveImage(options, image)
  } catch (cause) {
    if (!(cause instanceof RuntimeError)) throw cause
    const remedy = 'Check that the engine reaches the install registry, and that the image was synced.'
    throw new ServiceError('image', cause.message, remedy, { cause })
  }
}

async function settle(options: Context, component: string, keep: 'new' | 'old'): Promise<void> {
  const { log } = options
  const { current, next, stale } = await find(options, component)
  if (keep === 'new' && next) await giveName(options, next, hostOf(component))
  const kept = keep === 'new' ? (next ?? current) : current
  const gone = [...stale, current, next].filter((each) => each !== undefined && each !== kept)
  for (const generation of gone) if (generation) await removeGeneration(options, generation)
  if (kept === undefined) await leaveNetwork(options)
  log.info({ component, keep, image: kept?.facts.image, generation: kept?.number }, 'a service was settled')
}

/** A container's names in a network are those it was connected with, so it leaves for a moment: nobody asks it yet. */
async function giveName(options: Context, generation: Generation, host: string): Promise<void> {
  const { engine, agentKey } = options
  const network = networkName(agentKey)
  for (const { name, networks } of generation.containers) {
    if (networks[network]?.aliases.includes(host)) continue
    await engine.disconnect(network, name)
    await engine.connect(network, name, [host])
  }
}

async function removeAll(options: Context, component: string): Promise<void> {
  const { current, next, stale } = await find(options, component)
  for (const generation of [...stale, next, current]) {
    if (generation) await removeGeneration(options, generation)
  }
  await leaveNetwork(options)
  options.log.info({ component }, 'a service was removed')
}

/** Out of the network first: one that ends must not be found by its name any more. */
async function removeGeneration({ engine, agentKey }: Context, generation: Generation): Promise<void> {
  await Promise.all(
    generation.containers.map(async ({ name }) => {
      await engine.disconnect(networkName(agentKey), name)
      await engine.stop(name, STOP_SECONDS)
      await removeContainer(engine, name)
    }),
  )
}

/** With the last service the network goes too, unless something that is not ours is connected to it. */
async function leaveNetwork({ engine, agentKey, log, turns }: Context): Promise<void> {
  const network = networkName(agentKey)
  await turns(NETWORK, async () => {
    const all = await engine.list(`${LABELS.agent}=${agentKey}`)
    if (all.some(({ labels }) => labels[SERVICE_LABELS.service] !== undefined)) return
    if (!(await engine.hasNetwork(network))) return
    for (const { id } of all) await engine.disconnect(network, id)
    if (!(await engine.removeNetwork(network))) {
      log.warn({ network }, 'the network of services stays, since something else is connected to it')
    }
  })
}

async function admit({ engine, agentKey, nameOf }: Context, jobId: string): Promise<void> {
  const network = networkName(agentKey)
  if (!(await engine.hasNetwork(network))) return
  try {
    await engine.connect(network, nameOf(jobId), [])
  } catch (cause) {
    if (!(cause instanceof EngineError) || cause.code === 'unreachable') throw cause
    const message = `The engine does not let the job into the network of the services: ${cause.message}`
    const remedy =
      'Services need an engine whose containers are in bridge networks; a rootless Podman has none.'
    throw new ServiceError('network', message, remedy, { cause })
  }
}

type Turns = <T>(of: string, work: () => Promise<T>) => Promise<T>

interface Context extends DockerServicesOptions {
  turns: Turns
}

/** One after the other for each component, whatever came of the one before. */
function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>()
  return (component, work) => {
    const before = last.get(component) ?? Promise.resolve()
    const turn = before.then(work, work)
    const ended = turn.catch(() => undefined)
    last.set(component, ended)
    void ended.then(() => last.get(component) === ended && last.delete(component))
    return turn
  }
}
