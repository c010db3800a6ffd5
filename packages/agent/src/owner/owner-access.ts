import { AGENT_ROLES, JOB_KINDS } from '@tenon/core'
import { z } from 'zod'

/** What the owner of the folder may ask of its agent, running or stopped. */
export interface OwnerAccess {
  status(): Promise<AgentStatus>
  /** Names only: a value never comes back out. */
  secrets(): Promise<SecretEntry[]>
  setSecret(name: string, value: string): Promise<{ version: number }>
  /** Resolves when the stop is on disk and asked for; the job still has its grace. */
  stopJob(jobId: string): Promise<StoppedJob>
  pause(): Promise<Switch>
  resume(): Promise<Switch>
  /** Gives the agent up: for a day, whoever enrols with a join token made to replace it takes its place. */
  release(): Promise<Released>
  /** A new key of its own; `accepted` once the server counts on it, which a stopped agent cannot know. */
  rotateKey(): Promise<RotatedKey>
}

const time = z.string()
const jobState = z.enum(['accepted', 'held', 'running', 'finished'])

export const agentStatus = z.object({
  running: z.boolean(),
  pid: z.int().nullable(),
  version: z.string().nullable(),
  startedAt: time.nullable(),
  agentId: z.string(),
  role: z.enum(AGENT_ROLES),
  installId: z.string().nullable(),
  /** Fingerprint of its own key: what whoever sends it secrets compares. */
  key: z.string(),
  server: z.object({ id: z.string(), url: z.string().nullable() }),
  connectedSince: time.nullable(),
  pausedSince: time.nullable(),
  slots: z.object({ used: z.int(), total: z.int() }).nullable(),
  jobs: z.array(
    z.object({
      jobId: z.string(),
      kind: z.enum(JOB_KINDS).nullable(),
      component: z.string().nullable(),
      state: jobState,
      startedAt: time.nullable(),
      stopping: z.boolean(),
    }),
  ),
  /** What waits for the server; `logBytes` is known to a running agent alone. */
  outbox: z.object({
    events: z.int(),
    results: z.int(),
    logBytes: z.int().nullable(),
    droppedBytes: z.int(),
  }),
  auditHead: z.object({ chain: z.string(), seq: z.int(), hash: z.string() }).nullable(),
  runtime: z.object({ name: z.string(), confinement: z.string(), warnings: z.array(z.string()) }).nullable(),
  pinnedKeys: z.array(z.object({ keyId: z.string(), fingerprint: z.string() })),
})
export type AgentStatus = z.infer<typeof agentStatus>

export const secretEntry = z.object({ name: z.string(), version: z.int(), setAt: time })
export type SecretEntry = z.infer<typeof secretEntry>

export const stoppedJob = z.object({ jobId: z.string(), state: jobState })
export type StoppedJob = z.infer<typeof stoppedJob>

export const switchState = z.object({ pausedSince: time.nullable() })
export type Switch = z.infer<typeof switchState>

export const rotatedKey = z.object({ key: z.string(), accepted: z.boolean() })
export type RotatedKey = z.infer<typeof rotatedKey>

export const released = z.object({ releasedAt: time })
export type Released = z.infer<typeof released>
