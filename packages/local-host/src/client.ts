import { request } from 'node:http'
import type { z } from 'zod'
import {
  applyResultSchema,
  errorAnswerSchema,
  installListSchema,
  installSchema,
  logsSchema,
  portSchema,
  putInstallResultSchema,
  removedSchema,
  serviceListSchema,
  unitStatusSchema,
} from '@tenon/protocol/local-host'
import type {
  ApplyResult,
  InstallStatus,
  LocalHostErrorCode,
  PutInstallResult,
  UnitSpecInput,
  UnitStatus,
} from '@tenon/protocol/local-host'

const MAX_ANSWER_BYTES = 16 * 1024 * 1024
const SECONDS_BEYOND_WAIT = 60

/** A refusal of the local-host, or its absence. */
export class LocalHostError extends Error {
  readonly code: LocalHostErrorCode
  readonly remedy: string

  constructor(code: LocalHostErrorCode, message: string, remedy: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'LocalHostError'
    this.code = code
    this.remedy = remedy
  }
}

/** Calls of both sockets; each socket answers `not_found` to the other's calls. */
export interface LocalHostClient {
  putInstall(
    id: string,
    units: Record<string, UnitSpecInput>,
    options?: WaitOptions,
  ): Promise<PutInstallResult>
  listInstalls(): Promise<InstallStatus[]>
  getInstall(id: string): Promise<InstallStatus>
  deleteInstall(id: string): Promise<boolean>
  allocateInstallPort(id: string, name: string): Promise<number>
  putService(name: string, spec: UnitSpecInput, options?: WaitOptions): Promise<ApplyResult>
  listServices(): Promise<UnitStatus[]>
  getService(name: string): Promise<UnitStatus>
  serviceLogs(name: string, options?: { tail?: number }): Promise<string[]>
  deleteService(name: string): Promise<boolean>
  allocatePort(name: string): Promise<number>
}

export interface WaitOptions {
  waitSeconds?: number
  signal?: AbortSignal
}

export function createLocalHostClient({ socketPath }: { socketPath: string }): LocalHostClient {
  const call = <T>(method: string, path: string, schema: z.ZodType<T>, extra: CallExtra = {}) =>
    callSocket({ socketPath, method, path, ...extra }, schema)
  const put = <T>(path: string, body: unknown, schema: z.ZodType<T>, options: WaitOptions = {}) => {
    const wait = options.waitSeconds ?? 0
    const extra: CallExtra = { body, timeoutSeconds: wait + SECONDS_BEYOND_WAIT }
    if (options.signal) extra.signal = options.signal
    return call('PUT', `${path}?wait=${wait}`, schema, extra)
  }
  const part = encodeURIComponent
  return {
    putInstall: (id, units, options) =>
      put(`/installs/${part(id)}`, { units }, putInstallResultSchema, options),
    listInstalls: async () => (await call('GET', '/installs', installListSchema)).installs,
    getInstall: (id) => call('GET', `/installs/${part(id)}`, installSchema),
    deleteInstall: async (id) =>
      (await call('DELETE', `/installs/${part(id)}`, removedSchema, { timeoutSeconds: 900 })).removed,
    allocateInstallPort: async (id, name) =>
      (await call('POST', `/installs/${part(id)}/ports`, portSchema, { body: { name } })).port,
    putService: (name, spec, options) => put(`/services/${part(name)}`, spec, applyResultSchema, options),
    listServices: async () => (await call('GET', '/services', serviceListSchema)).services,
    getService: (name) => call('GET', `/services/${part(name)}`, unitStatusSchema),
    serviceLogs: async (name, options) =>
      (await call('GET', `/services/${part(name)}/logs?tail=${options?.tail ?? 200}`, logsSchema)).lines,
    deleteService: async (name) =>
      (await call('DELETE', `/services/${part(name)}`, removedSchema, { timeoutSeconds: 900 })).removed,
    allocatePort: async (name) => (await call('POST', '/ports', portSchema, { body: { name } })).port,
  }
}

async function callSocket<T>(target: Call, schema: z.ZodType<T>): Promise<T> {
  const { status, text } = await exchange(target)
  const answer = parseJson(text)
  if (status >= 400) {
    const refusal = errorAnswerSchema.safeParse(answer)
    if (!refusal.success) throw badAnswer(target, `status ${status}`)
    const { code, message, remedy } = refusal.data.error
    throw new LocalHostError(code, message, remedy)
  }
  const parsed = schema.safeParse(answer)
  if (!parsed.success) throw badAnswer(target, parsed.error.message, parsed.error)
  return parsed.data
}

function exchange(target: Call): Promise<{ status: number; text: string }> {
  const payload = target.body === undefined ? undefined : Buffer.from(JSON.stringify(target.body))
  return new Promise((resolve, reject) => {
    const unreachable = (cause: Error) =>
      reject(
        new LocalHostError(
          'unreachable',
          `The local-host does not answer at ${target.socketPath}: ${cause.message}`,
          'Check that the local-host of this install runs and that the socket path is right.',
          cause,
        ),
      )
    const outgoing = request({
      socketPath: target.socketPath,
      method: target.method,
      path: target.path,
      agent: false,
      timeout: (target.timeoutSeconds ?? SECONDS_BEYOND_WAIT) * 1000,
      headers: payload ? { 'content-type': 'application/json', 'content-length': payload.length } : {},
      ...(target.signal ? { signal: target.signal } : {}),
    })
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in time')))
    outgoing.on('error', unreachable)
    outgoing.on('response', (incoming) => {
      const chunks: Buffer[] = []
      let size = 0
      incoming.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > MAX_ANSWER_BYTES) outgoing.destroy(new Error('the answer is too large'))
        else chunks.push(chunk)
      })
      incoming.on('error', unreachable)
      incoming.on('end', () =>
        resolve({ status: incoming.statusCode ?? 500, text: Buffer.concat(chunks).toString('utf8') }),
      )
    })
    outgoing.end(payload)
  })
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function badAnswer(target: Call, detail: string, cause?: unknown): LocalHostError {
  return new LocalHostError(
    'bad_answer',
    `Unexpected answer to ${target.method} ${target.path}: ${detail}`,
    'Use a client and a local-host of the same version.',
    cause,
  )
}

interface CallExtra {
  body?: unknown
  timeoutSeconds?: number
  signal?: AbortSignal
}

interface Call extends CallExtra {
  socketPath: string
  method: string
  path: string
}
