import http from 'node:http'
import net from 'node:net'
import { z } from 'zod'
import { AGENT_ERROR_CODES, AgentError } from '../ground/errors.ts'
import { STORE_ERRORS, StoreError } from '../store/store-error.ts'
import {
  agentStatus,
  released,
  rotatedKey,
  secretEntry,
  stoppedJob,
  switchState,
  type OwnerAccess,
} from './owner-access.ts'

const ANSWER_WITHIN_MS = 30_000

/** What the owner may ask of a running agent, over its admin socket. */
export function createSocketAccess(socket: string): OwnerAccess {
  const ask = async <T>(schema: z.ZodType<T>, method: string, path: string, body?: unknown): Promise<T> => {
    const { status, text } = await exchange(socket, method, path, body)
    if (status === 200) return schema.parse(JSON.parse(text))
    throw errorOf(text)
  }
  return {
    status: () => ask(agentStatus, 'GET', '/v1/status'),
    secrets: () => ask(z.array(secretEntry), 'GET', '/v1/secrets'),
    setSecret: (name, value) =>
      ask(z.object({ version: z.int() }), 'PUT', `/v1/secrets/${encodeURIComponent(name)}`, { value }),
    stopJob: (jobId) => ask(stoppedJob, 'POST', `/v1/jobs/${encodeURIComponent(jobId)}/stop`),
    pause: () => ask(switchState, 'POST', '/v1/pause'),
    resume: () => ask(switchState, 'POST', '/v1/resume'),
    rotateKey: () => ask(rotatedKey, 'POST', '/v1/rotate-key'),
    release: () => ask(released, 'POST', '/v1/release'),
  }
}

/** Whether somebody listens there: the file of a dead agent's socket stays behind. */
export function isListening(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = net.connect(socket)
    probe.once('connect', () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', () => resolve(false))
  })
}

function exchange(
  socketPath: string,
  method: string,
  path: string,
  body: unknown,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath, method, path, timeout: ANSWER_WITHIN_MS }, (response) => {
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part))
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString('utf8') }),
      )
      response.on('error', (cause) => reject(cut(cause)))
    })
    request.on('timeout', () => request.destroy(new Error('it did not answer in time')))
    request.on('error', (cause) => reject(cut(cause)))
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const failure = z.object({
  error: z.object({
    code: z.enum([...AGENT_ERROR_CODES, ...STORE_ERRORS]).catch('admin_failed'),
    message: z.string(),
    remedy: z.string(),
  }),
})

function errorOf(text: string): Error {
  const { code, message, remedy } = failure.parse(JSON.parse(text)).error
  const ofStore = STORE_ERRORS.find((known) => known === code)
  if (ofStore) return new StoreError(ofStore, message)
  const ofAgent = AGENT_ERROR_CODES.find((known) => known === code)
  return new AgentError(ofAgent ?? 'admin_failed', message, remedy || "Look at the agent's own log.")
}

function cut(cause: Error): AgentError {
  return new AgentError(
    'agent_busy',
    `The running agent broke off before it answered: ${cause.message}.`,
    'See with `status` whether it was done, and try again.',
    { cause },
  )
}
