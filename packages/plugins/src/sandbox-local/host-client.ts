import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  errorAnswerSchema,
  installSchema,
  portSchema,
  putInstallResultSchema,
  removedSchema,
  type ApplyResult,
  type InstallStatus,
  type PutInstallResult,
  type UnitSpecInput,
} from '@tenon/protocol/local-host'
import type { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'
import { callUnixSocket } from '../sdk/unix-socket.ts'

export type AppliedUnit = Pick<ApplyResult, 'outcome' | 'reason' | 'logTail'>

export interface HostClient {
  getInstall(id: string): Promise<InstallStatus | undefined>
  /** The given system units and no others; waits until each is healthy or is not. */
  putInstall(id: string, units: Record<string, UnitSpecInput>, waitSeconds: number): Promise<PutInstallResult>
  /** Given once per name and kept. */
  allocatePort(id: string, name: string): Promise<number>
  deleteInstall(id: string): Promise<boolean>
}

const SECONDS_BEYOND_WAIT = 60
const REMOVAL_SECONDS = 900
const MAX_ANSWER_BYTES = 16_777_216

/** The admin socket's path stands in the local-host's folder, which is the access that the customer lent. */
export async function connectHost(dir: string, signal: AbortSignal): Promise<HostClient> {
  const socketPath = await readFile(join(dir, 'admin.path'), 'utf8').catch((cause: unknown) => {
    throw unreachable(`There is no local-host in ${dir}`, cause)
  })
  const send = (call: Call) => exchange(socketPath.trim(), signal, call)
  const ask = async <T>(call: Call, schema: z.ZodType<T>) => readAnswer(await send(call), call, schema)
  const path = (id: string) => `/installs/${encodeURIComponent(id)}`
  return {
    getInstall: async (id) => {
      const call: Call = { method: 'GET', path: path(id) }
      const answer = await send(call)
      const refused =
        answer.status === 404 ? errorAnswerSchema.safeParse(parseJson(answer.text)).data : undefined
      return refused?.error.code === 'install_not_found' ? undefined : readAnswer(answer, call, installSchema)
    },
    putInstall: (id, units, waitSeconds) =>
      ask(
        { method: 'PUT', path: `${path(id)}?wait=${waitSeconds}`, body: { units }, waitSeconds },
        putInstallResultSchema,
      ),
    allocatePort: async (id, name) => {
      const call: Call = { method: 'POST', path: `${path(id)}/ports`, body: { name } }
      return (await ask(call, portSchema)).port
    },
    deleteInstall: async (id) => {
      const call: Call = { method: 'DELETE', path: path(id), waitSeconds: REMOVAL_SECONDS }
      return (await ask(call, removedSchema)).removed
    },
  }
}

async function exchange(socketPath: string, signal: AbortSignal, call: Call): Promise<Answer> {
  try {
    return await callUnixSocket({
      socketPath,
      method: call.method,
      path: call.path,
      timeoutMs: ((call.waitSeconds ?? 0) + SECONDS_BEYOND_WAIT) * 1000,
      maxAnswerBytes: MAX_ANSWER_BYTES,
      signal,
      ...(call.body === undefined ? {} : { body: call.body }),
    })
  } catch (cause) {
    throw unreachable(`The local-host does not answer at ${socketPath}`, cause)
  }
}

/** Neither the request nor its body ever enters a message: it carries the install's keys. */
function readAnswer<T>(answer: Answer, call: Call, schema: z.ZodType<T>): T {
  const value = parseJson(answer.text)
  const what = `${call.method} ${call.path.split('?', 1)[0]}`
  if (answer.status >= 400) {
    const refused = errorAnswerSchema.safeParse(value).data?.error
    const message = `The local-host refused ${what}: ${refused?.message ?? `status ${answer.status}`}`
    throw new PluginError('host_refused', message, refused?.remedy ?? '')
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const message = `The local-host's answer to ${what} does not fit the contract.`
  throw new PluginError('host_refused', message, 'Use a local-host and a plugin of one version.')
}

function unreachable(message: string, cause: unknown): PluginError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new PluginError(
    'host_unreachable',
    `${message}: ${why}.`,
    'Start the local-host of this machine.',
    cause,
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

interface Call {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  path: string
  body?: unknown
  waitSeconds?: number
}

interface Answer {
  status: number
  text: string
}
