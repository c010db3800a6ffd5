import type { JobKind } from './states.ts'

/** Somebody sits in front of these: they have slots of their own, which no deploy takes. */
export const INTERACTIVE_KINDS: readonly JobKind[] = ['action', 'logs', 'debug']

export type Lane = 'ordinary' | 'interactive'

export function laneOf(kind: JobKind): Lane {
  return INTERACTIVE_KINDS.includes(kind) ? 'interactive' : 'ordinary'
}

/** What the jobs of one agent may use together. */
export interface Capacity {
  slots: number
  /** Besides `slots`. */
  interactiveSlots: number
  memoryBytes: number
  cpus: number
}

/** Of memory and processors, the part that is kept for what people wait for. */
const INTERACTIVE_SHARE = 1 / 8

export interface Demand {
  kind: JobKind
  memoryBytes: number
  cpus: number
}

/** A job that has its slot. */
export interface Holder extends Demand {
  jobId: string
}

export type Resource = 'slots' | 'memory' | 'processors'

/** What a job waits for, and who has it. */
export interface Shortage {
  resource: Resource
  needed: number
  used: number
  total: number
  holders: Holder[]
}

/**
 * Undefined when the job may start now. Each lane has a share of its own, so neither can starve the other. A job that is
 * larger than its whole share starts when it has the lane for itself: it would wait for ever otherwise.
 */
export function shortageOf(
  capacity: Capacity,
  holding: readonly Holder[],
  wanted: Demand,
): Shortage | undefined {
  const lane = laneOf(wanted.kind)
  const isShared = capacity.interactiveSlots === 0
  const holders = holding.filter((holder) => isShared || laneOf(holder.kind) === lane)
  const share = shareOf(capacity, lane)
  const sum = (of: (holder: Demand) => number) => holders.reduce((total, holder) => total + of(holder), 0)
  const rows: Omit<Shortage, 'holders'>[] = [
    { resource: 'slots', needed: 1, used: holders.length, total: share.slots },
    {
      resource: 'memory',
      needed: wanted.memoryBytes,
      used: sum((holder) => holder.memoryBytes),
      total: share.memoryBytes,
    },
    { resource: 'processors', needed: wanted.cpus, used: sum((holder) => holder.cpus), total: share.cpus },
  ]
  const short =
    holders.length === 0 ? undefined : rows.find(({ needed, used, total }) => used + needed > total)
  return short && { ...short, holders }
}

function shareOf(
  { slots, interactiveSlots, memoryBytes, cpus }: Capacity,
  lane: Lane,
): Omit<Capacity, 'interactiveSlots'> {
  // Without slots of their own the interactive kinds are as all others.
  if (interactiveSlots === 0) return { slots, memoryBytes, cpus }
  const part = lane === 'interactive' ? INTERACTIVE_SHARE : 1 - INTERACTIVE_SHARE
  return {
    slots: lane === 'interactive' ? interactiveSlots : slots,
    memoryBytes: memoryBytes * part,
    cpus: cpus * part,
  }
}

const MOST_NAMED = 3

/** For people: which resource is full, who holds it, and how many wait for it before this one. */
export function describeShortage(shortage: Shortage, ahead: number): string {
  const { resource, needed, used, total, holders } = shortage
  const what = {
    slots: `all ${total} slots are taken`,
    memory: `it needs ${size(needed)} of memory, and ${size(used)} of ${size(total)} are given out`,
    processors: `it needs ${round(needed)} processors, and ${round(used)} of ${round(total)} are given out`,
  }[resource]
  const behind = ahead === 0 ? '' : `; ${ahead} ${ahead === 1 ? 'job waits' : 'jobs wait'} before it`
  return `${what}, to ${nameHolders(holders)}${behind}`
}

export function nameHolders(holders: readonly { jobId: string; kind: JobKind }[]): string {
  const named = holders.slice(0, MOST_NAMED).map(({ jobId, kind }) => `${kind} ${jobId}`)
  const more = holders.length - named.length
  return more > 0 ? `${named.join(', ')} and ${more} more` : named.join(', ')
}

function size(bytes: number): string {
  const mib = bytes / 1_048_576
  return mib < 1024 ? `${Math.round(mib)} MiB` : `${round(mib / 1024)} GiB`
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10)
}
