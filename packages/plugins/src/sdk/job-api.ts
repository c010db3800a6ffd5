import { setTimeout as delay } from 'node:timers/promises'
import { fullJitter } from '@tenon/core'
import {
  apiError,
  attestationCredential,
  joinCredential,
  jobContext,
  jobManifest,
  jobOutputs,
  jobProgress,
  jobResult,
  jobSecret,
  MAX_PLAN_BYTES,
  MAX_STATE_BYTES,
  registryCredential,
  savedPlan,
  type AttestationRequest,
  type JobContext,
  type JobResult,
} from '@tenon/protocol'
import type { z } from 'zod'
import { canceled, PluginError } from './errors.ts'
import { createServiceApi, type ServiceApi } from './service-api.ts'
import { callUnixSocket, type SecureAddress, type SocketAnswer } from './unix-socket.ts'

export type JobOutputs = z.infer<typeof jobOutputs>
export type RegistryCredential = z.infer<typeof registryCredential>
export type Attestation = z.infer<typeof attestationCredential>
export type JoinCredential = z.infer<typeof joinCredential>

/** The agent's local endpoint, as a job sees it. Every call may be repeated, and is while the agent restarts. */
export interface JobApi {
  manifest(): Promise<z.infer<typeof jobManifest>>
  context(): Promise<JobContext>
  secret(name: string): Promise<string>
  /** Outputs of another component, with the values of the sensitive ones. */
  outputs(component: string): Promise<JobOutputs>
  registryCredential(): Promise<RegistryCredential>
  joinToken(): Promise<JoinCredential>
  /** The server's signature and provenance of what this build pushed. */
  attestation(artifact: AttestationRequest): Promise<Attestation>
  /** Best effort: a progress that cannot be told never fails the work it tells of. */
  progress(message: string, fraction: number | null): Promise<void>
  /** `component` is the operation's own; null leaves it to the agent. */
  putOutputs(component: string | null, outputs: JobOutputs): Promise<void>
  putResult(result: JobResult): Promise<void>
  /** One call of Terraform's `http` backend, answered as the agent answers it, refusals too; see `openStateBridge`. */
  terraformState(call: StateCall): Promise<{ status: number; bytes: Uint8Array }>
  /** Keeps a saved plan in the install; its digest names it from then on. */
  putPlan(component: string | null, plan: Uint8Array): Promise<string>
  /** A plan that the manifest approved, or that this job put. */
  plan(digest: string): Promise<Uint8Array>
  /** Where the context says `hasServices`. */
  service(component: string): ServiceApi
}

export interface StateCall {
  method: 'GET' | 'POST' | 'DELETE' | 'LOCK' | 'UNLOCK'
  component: string
  /** Of the lock under which a state is written. */
  lockId?: string
  contentMd5?: string
  body?: Uint8Array
}

export interface JobApiOptions {
  /** Where the agent listens; with `secure`, only its name for people. */
  socketPath: string
  secure?: SecureAddress
  token: string
  /** How long an absent agent is waited for. */
  patienceMs?: number
  now?: () => number
  random?: () => number
  signal?: AbortSignal
}

const PATIENCE_MS = 120_000
const CALL_TIMEOUT_MS = 30_000
/** Longer than any answer of the server that the agent may have to wait for. */
const CREDENTIAL_TIMEOUT_MS = 60_000
const MAX_ANSWER_BYTES = 8_388_608
/** For state and plans, which are large at times. */
const BYTES_TIMEOUT_MS = 60_000

/** Gone, not listening yet, or cut off half way: all of it is what a restarting agent looks like. */
const ABSENT = new Set([
  'ENOENT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTCONN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

export function createJobApi(options: JobApiOptions): JobApi {
  const ask = <T>(call: Call, schema: z.ZodType<T>) => askUntilAnswered(options, call, schema)
  const put = async (path: string, body: unknown) => {
    await send(options, { method: 'PUT', path, body })
  }
  const part = encodeURIComponent
  // A Terraform that was told to stop still has its state to write and its lock to give back.
  const { signal: _, ...unstoppable } = options
  const credential = (kind: string): Call => ({
    method: 'POST',
    path: `/v1/credentials/${kind}`,
    body: {},
    timeoutMs: CREDENTIAL_TIMEOUT_MS,
  })
  return {
    manifest: () => ask({ method: 'GET', path: '/v1/manifest' }, jobManifest),
    context: () => ask({ method: 'GET', path: '/v1/context' }, jobContext),
    secret: async (name) =>
      (await ask({ method: 'GET', path: `/v1/secrets/${part(name)}` }, jobSecret)).value,
    outputs: (component) => ask({ method: 'GET', path: `/v1/outputs/${part(component)}` }, jobOutputs),
    registryCredential: () => ask(credential('registry'), registryCredential),
    joinToken: () => ask(credential('join-token'), joinCredential),
    attestation: (artifact) =>
      ask(
        { method: 'POST', path: '/v1/attestations', body: artifact, timeoutMs: CREDENTIAL_TIMEOUT_MS },
        attestationCredential,
      ),
    progress: async (message, fraction) => {
      const body = jobProgress.parse({ message, fraction })
      await exchange(options, { method: 'PUT', path: '/v1/progress', body }).catch(() => undefined)
    },
    putOutputs: (component, outputs) => {
      const of = component === null ? '' : `?component=${part(component)}`
      return put(`/v1/outputs${of}`, jobOutputs.parse(outputs))
    },
    putResult: (result) => put('/v1/result', jobResult.parse(result)),
    terraformState: (call) => send(unstoppable, stateCall(call)),
    putPlan: async (component, plan) => {
      const of = component === null ? '' : `?component=${part(component)}`
      const call: Call = { method: 'PUT', path: `/v1/plans${of}`, body: plan, timeoutMs: BYTES_TIMEOUT_MS }
      return (await ask(call, savedPlan)).digest
    },
    plan: async (digest) => {
      const path = `/v1/plans/${part(digest)}`
      const call: Call = { method: 'GET', path, timeoutMs: BYTES_TIMEOUT_MS, maxAnswerBytes: MAX_PLAN_BYTES }
      return (await send(options, call)).bytes
    },
    service: (component) =>
      createServiceApi(component, ask, (call, schema) => askUntilAnswered(unstoppable, call, schema)),
  }
}

function stateCall({ method, component, lockId, contentMd5, body }: StateCall): Call {
  const of = lockId === undefined ? '' : `?ID=${encodeURIComponent(lockId)}`
  return {
    method,
    path: `/v1/terraform/${encodeURIComponent(component)}${of}`,
    ...(body ? { body } : {}),
    ...(contentMd5 === undefined ? {} : { headers: { 'content-md5': contentMd5 } }),
    timeoutMs: BYTES_TIMEOUT_MS,
    maxAnswerBytes: MAX_STATE_BYTES,
    takesRefusals: true,
  }
}

async function askUntilAnswered<T>(options: JobApiOptions, call: Call, schema: z.ZodType<T>): Promise<T> {
  const answer = await send(options, call)
  const parsed = schema.safeParse(parseJson(answer.text))
  if (parsed.success) return parsed.data
  const fields = parsed.error.issues.slice(0, 3).map((issue) => issue.path.join('.') || 'the body')
  const message = `The agent's answer to ${call.method} ${call.path} does not fit the contract (${fields.join(', ')}).`
  throw new PluginError('job_api_bad_answer', message, 'Use an agent and a job program of one version.')
}

/** Answers once the agent did; an agent that is away, or says that it is not ready, is asked again. */
async function send(options: JobApiOptions, call: Call): Promise<SocketAnswer> {
  const { patienceMs = PATIENCE_MS, now = Date.now, random = Math.random, signal } = options
  const deadline = now() + patienceMs
  for (let attempt = 0; ; attempt += 1) {
    const outcome = await tryOnce(options, call)
    if ('answer' in outcome) return outcome.answer
    if (signal?.aborted) throw canceled(outcome.problem)
    if (now() >= deadline) throw outcome.problem
    await delay(50 + fullJitter(attempt, random(), 100, 2000), undefined, signal ? { signal } : {}).catch(
      (cause: unknown) => {
        throw canceled(cause)
      },
    )
  }
}

async function tryOnce(options: JobApiOptions, call: Call): Promise<Outcome> {
  let answer: SocketAnswer
  try {
    answer = await exchange(options, call)
  } catch (cause) {
    const problem = unreachable(options.socketPath, cause)
    if (isAbsent(cause)) return { problem }
    throw options.signal?.aborted ? canceled(cause) : problem
  }
  const isBusy = answer.status === 503 || answer.status === 429
  if (answer.status < 400 || (call.takesRefusals && !isBusy)) return { answer }
  const problem = refused(call, answer)
  if (isBusy) return { problem }
  throw problem
}

function exchange(options: JobApiOptions, call: Call): Promise<SocketAnswer> {
  return callUnixSocket({
    socketPath: options.socketPath,
    ...(options.secure ? { secure: options.secure } : {}),
    method: call.method,
    path: call.path,
    headers: { ...call.headers, authorization: `Bearer ${options.token}` },
    timeoutMs: call.timeoutMs ?? CALL_TIMEOUT_MS,
    maxAnswerBytes: call.maxAnswerBytes ?? MAX_ANSWER_BYTES,
    ...(call.body === undefined ? {} : { body: call.body }),
    ...(options.signal ? { signal: options.signal } : {}),
  })
}

export function isAbsent(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && ABSENT.has(String(cause.code))
}

function unreachable(socketPath: string, cause: unknown): PluginError {
  const why = cause instanceof Error ? cause.message : String(cause)
  const message = `The agent does not answer at ${socketPath}: ${why}.`
  return new PluginError('job_api_unreachable', message, 'Check that the agent runs.', cause)
}

function refused(call: Call, answer: SocketAnswer): PluginError {
  const body = apiError.shape.error
    .pick({ code: true, message: true, remedy: true })
    .safeParse((parseJson(answer.text) as { error?: unknown } | undefined)?.error)
  const what = `${call.method} ${call.path}`
  if (!body.success) {
    return new PluginError('job_api_refused', `The agent answered ${answer.status} to ${what}.`, '')
  }
  const { code, message, remedy } = body.data
  return new PluginError('job_api_refused', `The agent refused ${what} (${code}): ${message}`, remedy ?? '')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

interface Call {
  method: string
  path: string
  headers?: Record<string, string>
  body?: unknown
  timeoutMs?: number
  maxAnswerBytes?: number
  /** A refusal is an answer too. */
  takesRefusals?: true
}

type Outcome = { answer: SocketAnswer } | { problem: PluginError }
