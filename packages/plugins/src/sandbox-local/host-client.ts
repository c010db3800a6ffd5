import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'
import { callUnixSocket } from '../sdk/unix-socket.ts'

/** The part of the local-host's contract that a sandbox job uses; a plugin may not import that package. */
const installAnswer = z.object({ id: z.string(), socketPath: z.string() })
const appliedUnit = z.object({
  outcome: z.string(),
  reason: z.string().nullable(),
  logTail: z.array(z.string()),
})
const putAnswer = z.object({ install: installAnswer, units: z.record(z.string(), appliedUnit) })
const refusal = z.object({
  error: z.object({ code: z.string(), message: z.string(), remedy: z.string() }),
})

export type AppliedUnit = z.infer<typeof appliedUnit>

export interface UnitSpec {
  command: string[]
  env: Record<string, string>
  /** Kept with mode 0600. */
  files: Record<string, string>
  health: 'none' | { http: { port: number; path: string }; intervalSeconds?: number }
}

export interface HostClient {
  getInstall(id: string): Promise<z.infer<typeof installAnswer> | undefined>
  /** The given system units and no others; waits until each is healthy or is not. */
  putInstall(
    id: string,
    units: Record<string, UnitSpec>,
    waitSeconds: number,
  ): Promise<z.infer<typeof putAnswer>>
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
      const refused = answer.status === 404 ? refusal.safeParse(parseJson(answer.text)).data : undefined
      return refused?.error.code === 'install_not_found' ? undefined : readAnswer(answer, call, installAnswer)
    },
    putInstall: (id, units, waitSeconds) =>
      ask(
        { method: 'PUT', path: `${path(id)}?wait=${waitSeconds}`, body: { units }, waitSeconds },
        putAnswer,
      ),
    allocatePort: async (id, name) => {
      const call: Call = { method: 'POST', path: `${path(id)}/ports`, body: { name } }
      return (await ask(call, z.object({ port: z.int() }))).port
    },
    deleteInstall: async (id) => {
      const call: Call = { method: 'DELETE', path: path(id), waitSeconds: REMOVAL_SECONDS }
      return (await ask(call, z.object({ removed: z.boolean() }))).removed
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
    const refused = refusal.safeParse(value).data?.error
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
