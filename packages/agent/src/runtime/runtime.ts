import type { JobEndReason, NetworkMode } from '@tenon/core'
import type { Services } from './services.ts'

/**
 * How an agent starts jobs. Every call is idempotent by job id: starting a job that runs returns its handle,
 * removing one that is gone is fine. A job outlives the agent; `list` and `attach` find what an earlier life
 * of the agent left behind. One contract suite (`contract.ts`) runs on every implementation.
 */
export interface Runtime {
  /** For people; whoever has to act by it asks `traits`. */
  readonly name: 'process' | 'fake' | 'docker' | 'kubernetes'
  readonly traits: RuntimeTraits
  /** Absent where the agent has no engine of its own to run a component's service on. */
  readonly services?: Services
  /** What this runtime confines a job with, in words, for `tenon doctor` and the job's record. */
  describe(): Promise<RuntimeDescription>
  /** A job is about to be started: what takes its time may begin. Nothing may come of it. */
  expect?(): void
  /** Throws `RuntimeError` with reason `start` or `image` when the job could not be started; nothing is left then. */
  start(spec: JobSpec): Promise<JobHandle>
  attach(jobId: string): Promise<JobHandle | undefined>
  /** The bytes of the job's log from `offset` on; ends when the job has ended and everything was read, or on abort. */
  logs(jobId: string, offset: number, signal: AbortSignal): AsyncIterable<Uint8Array>
  /** Frees the disk behind the log past its first `keep` bytes, and tells its size; absent where no disk of ours holds it. */
  boundLog?(jobId: string, keep: number): Promise<number>
  /** Resolves once the job has ended; an unknown job ends with reason `gone`. Rejects only on abort. */
  wait(jobId: string, signal: AbortSignal): Promise<JobExit>
  /** Runs a command beside the program of a running job, with its eyes and rights. Throws `ExecError`. */
  exec(jobId: string, command: string[], options: ExecOptions): Promise<JobExec>
  /** SIGTERM, then after `graceSeconds` SIGKILL to everything of the job. `reason` becomes the job's end reason. */
  stop(jobId: string, graceSeconds: number, reason: 'canceled' | 'timeout'): Promise<void>
  /** Stops what still runs and removes every trace. */
  remove(jobId: string): Promise<void>
  list(): Promise<JobHandle[]>
}

/** How a runtime has its jobs: what whoever makes and serves them needs to know of it. */
export interface RuntimeTraits {
  /** What a job starts: a program of the agent's machine, or the one that its image brings along. */
  starts: 'program' | 'image'
  /** How jobs come to the agent: by its socket, or from elsewhere over TLS, seeing nothing of the agent's machine. */
  reach: 'socket' | 'tls'
  /** The group that jobs have when their user is not the agent's own: the job API's socket must be open to it. */
  jobGroup?: number | undefined
  /** Jobs behave as the configuration of their component says, instead of doing anything. */
  isFake?: boolean
}

export interface JobSpec {
  jobId: string
  fence: number
  /** The fixed program of the `process` runtime; empty for the image's own, which an engine runs. */
  command: string[]
  /** By digest, from the install registry; absent on `process`. */
  image?: string
  /** The whole environment of the job; never a secret. */
  env: Record<string, string>
  /** Small files placed in the job's folder before it starts, readable by the job alone. The job's token is one. */
  files: Record<string, string>
  /** Host paths the job may see besides its own folder and the tools. */
  mounts: { path: string; writable: boolean }[]
  network: NetworkMode
  /** Present: nothing but its own loopback, out of which the agent's relay alone leads. */
  ownNetwork?: OwnNetwork
  /** The job may be root in a user namespace that it makes itself, as building an image needs; nothing more outside. */
  mayNestUsers?: boolean
  /** On `kubernetes`: the service account that gives the job its cloud access; without one it has none. */
  serviceAccount?: string
  limits: JobLimits
}

export interface OwnNetwork {
  /** Added to the job's environment where the runtime really gives it a loopback of its own. */
  env: Record<string, string>
  /** Added instead where it cannot, and the job has the machine's network: the proxy of that. */
  openEnv?: Record<string, string>
  /** The customer demands it: a machine that cannot do it starts no such job. Else the job has the machine's network. */
  isDemanded: boolean
}

export interface JobLimits {
  memoryBytes: number
  cpus: number
  pids: number
  timeoutSeconds: number
  graceSeconds: number
}

export interface JobHandle {
  jobId: string
  fence: number
  state: 'running' | 'ended'
  /** The folder or container path that the job works in, as the job sees it. */
  folder: string
  confinement: string
}

export interface JobExit {
  reason: JobEndReason
  exitCode: number | null
  /** One sentence for people. */
  message: string
  /** Processes of the job that the kernel killed for memory, where the job went on. */
  memoryKills?: number
}

export interface ExecOptions {
  /** With a terminal the command sees one, and everything it prints is `stdout`. */
  tty: boolean
  stdin?: AsyncIterable<Uint8Array>
  /** Ends the command, as far as the runtime can reach it. */
  signal: AbortSignal
}

export interface JobExec {
  /** What the command prints, as it comes; ends with it. Read it: unread output holds the command up. */
  output: AsyncIterable<ExecChunk>
  /** 128 + n when signal n ended the command. Rejects with `ExecError` when the way to it broke. */
  exitCode: Promise<number>
}

export interface ExecChunk {
  stream: 'stdout' | 'stderr'
  bytes: Uint8Array
}

/** `no_job`: it is unknown or has ended. `no_terminal`, `unsupported`: this machine has no way to do it. */
export type ExecErrorCode = 'no_job' | 'no_terminal' | 'unsupported' | 'broken'

export class ExecError extends Error {
  readonly code: ExecErrorCode

  constructor(code: ExecErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'ExecError'
    this.code = code
  }
}

export interface RuntimeDescription {
  confinement: string
  /** What is missing here and how to get it, a line each. */
  warnings: string[]
}

export class RuntimeError extends Error {
  readonly reason: 'start' | 'image'

  constructor(reason: 'start' | 'image', message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'RuntimeError'
    this.reason = reason
  }
}
