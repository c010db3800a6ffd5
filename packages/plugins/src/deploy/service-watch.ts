import { setTimeout as delay } from 'node:timers/promises'
import type { ServiceGeneration, ServiceReplica } from '@tenon/protocol'
import { canceled } from '../sdk/errors.ts'
import type { ServiceApi } from '../sdk/service-api.ts'
import { firstProblem, type Watch } from './health.ts'
import type { Work } from './operation.ts'

const PAUSE_MS = 1000
/** One that listens may still crash a moment later, so one look is not enough. */
const STABLE_MS = 4000
/** Of starts that ended: an engine would go on for ever. */
const MAX_CRASHES = 3
/** Looks in which a replica may be down, or its exit code be unknown, before that counts. */
const PATIENT_LOOKS = 5
const LAST_LINES = 10
const MAX_WORDS = 1000

/** What was seen of a replica so far: an engine forgets how one ended as soon as it starts it again. */
export interface Seen {
  exitCode: number | null
  wasOomKilled: boolean
  /** Of the engine's count: one that runs for months may have crashed before anybody watched. */
  restartsBefore: number
  crashes: number
  /** In how many looks, one after the other, it did not run. */
  down: number
  /** In how many looks it had crashed too often. */
  lost: number
}

export interface ServiceWatch extends Watch {
  /** One look at the generation that is coming, or else at the one that runs. */
  see(): Promise<{ generation: ServiceGeneration | undefined; lost: string | undefined }>
}

export function watchService(api: ServiceApi): ServiceWatch {
  const known = new Map<string, Seen>()
  const see = async () => {
    const state = await api.look()
    const generation = state.next ?? state.current ?? undefined
    for (const replica of generation?.replicas ?? [])
      known.set(replica.name, seeAgain(known.get(replica.name), replica, state.next !== null))
    const lost = generation?.replicas.find((replica) => isLost(known.get(replica.name)))
    return { generation, lost: lost && (await withWords(api, lost, known.get(lost.name))) }
  }
  return {
    see,
    look: async () => (await see()).lost,
    async worst() {
      const { generation, lost } = await see()
      if (lost !== undefined) return lost
      const crashed = generation?.replicas.find(
        (each) => !each.isRunning || (known.get(each.name)?.crashes ?? 0) > 0,
      )
      return crashed && withWords(api, crashed, known.get(crashed.name))
    },
  }
}

/** Waits until every replica answers and goes on to. The engine's reason when they will not; undefined when they do. */
export async function waitUntilServing(
  work: Work<unknown>,
  watch: ServiceWatch,
  options: { healthPath: string | undefined; timeoutMs: number },
): Promise<string | undefined> {
  const giveUp = Date.now() + options.timeoutMs
  let goodSince: number | undefined
  let told = ''
  for (;;) {
    if (work.signal.aborted) throw canceled()
    const { generation, lost } = await watch.see()
    if (lost !== undefined) return lost
    const problem = await problemOf(work, generation, options.healthPath)
    const now = Date.now()
    goodSince = problem === undefined ? (goodSince ?? now) : undefined
    if (goodSince !== undefined && now - goodSince >= STABLE_MS) return undefined
    if (problem !== undefined && now >= giveUp) return (await watch.worst()) ?? problem
    if (problem !== undefined && problem !== told) work.log(`waiting: ${(told = problem)}`)
    await delay(PAUSE_MS, undefined, { signal: work.signal }).catch((cause: unknown) => {
      throw canceled(cause)
    })
  }
}

/** One look from outside: the first replica that is not there, does not run, or does not answer. */
export async function problemOf(
  work: Work<unknown>,
  generation: ServiceGeneration | undefined,
  healthPath: string | undefined,
): Promise<string | undefined> {
  if (generation === undefined) return 'nothing is there'
  const missing = missingReplicas(generation)
  if (missing.length > 0) return `replica ${missing.join(' and ')} is gone`
  const down = generation.replicas.find(({ isRunning, address }) => !isRunning || address === null)
  if (down) return describeReplica(down)
  const probes = generation.replicas.map(({ number, address }) => {
    const place = `${address}:${generation.port}`
    const name = `of replica ${number}`
    return healthPath === undefined
      ? { name, type: 'tcp' as const, url: `tcp://${place}` }
      : { name, type: 'http' as const, url: `http://${place}${healthPath}` }
  })
  return firstProblem(work, probes, { cwd: work.workDir, isNear: true })
}

/** Pure: the numbers of those that somebody took away. */
export function missingReplicas({ wanted, replicas }: ServiceGeneration): number[] {
  const there = new Set(replicas.map(({ number }) => number))
  return Array.from({ length: wanted }, (_, index) => index + 1).filter((number) => !there.has(number))
}

/** Pure. */
export function seeAgain(before: Seen | undefined, replica: ServiceReplica, isNew: boolean): Seen {
  const exitCode = replica.exitCode ?? before?.exitCode ?? null
  const wasOomKilled = replica.wasOomKilled || (before?.wasOomKilled ?? false)
  const restartsBefore = before?.restartsBefore ?? (isNew ? 0 : replica.restarts)
  const crashes = replica.restarts - restartsBefore
  return {
    exitCode,
    wasOomKilled,
    restartsBefore,
    crashes,
    down: replica.isRunning ? 0 : (before?.down ?? 0) + 1,
    lost: crashes >= MAX_CRASHES ? (before?.lost ?? 0) + 1 : 0,
  }
}

/** Pure: whether waiting on is useless. A crash is told with its exit code, for which a few more looks are taken. */
export function isLost(seen: Seen | undefined): boolean {
  if (seen === undefined) return false
  if (seen.lost > 0 && (seen.exitCode !== null || seen.lost >= PATIENT_LOOKS)) return true
  return seen.down >= PATIENT_LOOKS
}

/** Pure: in words. */
export function describeReplica(replica: ServiceReplica, seen?: Seen): string {
  const { number, state, restarts, error } = replica
  const exitCode = replica.exitCode ?? seen?.exitCode ?? null
  const crashed = restarts > 0 ? ` and crashed ${restarts} ${restarts === 1 ? 'time' : 'times'}` : ''
  const ended = exitCode === null ? '' : `, last with exit code ${exitCode}`
  const said = error === '' ? '' : `: ${error}`
  return `replica ${number} is ${state}${crashed}${ended}${memoryOf(exitCode, replica, seen)}${said}`
}

function memoryOf(exitCode: number | null, replica: ServiceReplica, seen: Seen | undefined): string {
  if (replica.wasOomKilled || seen?.wasOomKilled) return ' (out of memory: it wanted more than its limit)'
  // Podman does not tell what killed it.
  return exitCode === 137 ? ' (killed, as one is that wants more memory than its limit)' : ''
}

/** The last words of one that crashed say more than any status. */
async function withWords(api: ServiceApi, replica: ServiceReplica, seen: Seen | undefined): Promise<string> {
  const { replicas } = await api.logs(LAST_LINES).catch(() => ({ replicas: [] }))
  const said = replicas.find(({ name }) => name === replica.name)?.text.trim() ?? ''
  const words = said === '' ? '' : `; its last words: ${said.slice(-MAX_WORDS)}`
  return `${describeReplica(replica, seen)}${words}`
}
