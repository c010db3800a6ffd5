import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { rm } from 'node:fs/promises'
import type { JobManifest } from '@tenon/core'
import {
  attestationCredential,
  attestationRequest,
  jobContext,
  jobManifest,
  jobOutputs,
  jobProgress,
  jobResult,
  joinCredential,
  registryCredential,
  type AttestationRequest,
  type JobContext,
  type JobResult,
} from '@tenon/protocol'
import type { Attestation, JobOutputs, RegistryCredential } from '../sdk/job-api.ts'
import type { TestStore } from './test-store.ts'

/** What the agent knows and hears of one job. */
export interface JobRecord {
  manifest: JobManifest
  context: JobContext
  secrets: Record<string, string>
  outputs: Record<string, JobOutputs>
  registryCredential: () => Pick<RegistryCredential, 'registry' | 'bearer' | 'expiresAt' | 'oneTime'>
  /** The server's word on what a build pushed. */
  attest?: (artifact: AttestationRequest) => Omit<Attestation, 'want'>
  joinToken: () => string
  asked: string[]
  progress: { message: string; fraction: number | null }[]
  putOutputs: JobOutputs | undefined
  result: JobResult | undefined
  /** Terraform's state and saved plans; an agent without an install has none. */
  store?: TestStore
}

export interface JobApiServer {
  socketPath: string
  token: string
  record: JobRecord
  /** As an agent that restarts: the socket goes away, and comes back at the same path. */
  stop(): Promise<void>
  start(): Promise<void>
}

/** The agent's side of the job API for one job, each answer and each request checked against the contract. */
export async function serveJobApi(socketPath: string, record: JobRecord): Promise<JobApiServer> {
  const token = 'test-token-of-this-job'
  let server: Server | undefined
  const start = async () => {
    server = createServer((request, response) => {
      answer(record, token, request, response).catch((error: unknown) => {
        send(response, 400, { error: { code: 'bad_request', message: String(error), requestId: 'r' } })
      })
    })
    await new Promise<void>((resolve) => server?.listen(socketPath, resolve))
  }
  const stop = async () => {
    await new Promise((resolve) => {
      server?.close(resolve)
      server?.closeAllConnections()
    })
    await rm(socketPath, { force: true })
  }
  await start()
  return { socketPath, token, record, start, stop }
}

async function answer(
  record: JobRecord,
  token: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const call = `${request.method} ${request.url}`
  record.asked.push(call)
  if (request.headers.authorization !== `Bearer ${token}`) {
    const error = { code: 'unauthorized', message: 'no such job', remedy: 'Use its token.', requestId: 'r' }
    return send(response, 401, { error })
  }
  if (await record.store?.answer(request, response)) return
  const body: unknown = await readBody(request)
  const [, secret] = /^GET \/v1\/secrets\/(.+)$/.exec(call) ?? []
  const [, component] = /^GET \/v1\/outputs\/(.+)$/.exec(call) ?? []
  if (call === 'GET /v1/manifest') return send(response, 200, jobManifest.parse(record.manifest))
  if (call === 'GET /v1/context') return send(response, 200, jobContext.parse(record.context))
  if (secret !== undefined && record.secrets[secret] !== undefined) {
    return send(response, 200, { name: secret, value: record.secrets[secret] })
  }
  if (component !== undefined && record.outputs[component] !== undefined) {
    return send(response, 200, record.outputs[component])
  }
  if (call === 'POST /v1/credentials/registry') {
    const credential = { want: 'registry', repositories: [], ...record.registryCredential() }
    return send(response, 200, registryCredential.parse(credential))
  }
  if (call === 'POST /v1/attestations') {
    const attested = { want: 'attestation', ...record.attest?.(attestationRequest.parse(body)) }
    return send(response, 200, attestationCredential.parse(attested))
  }
  if (call === 'POST /v1/credentials/join-token') {
    const credential = { want: 'join-token', joinToken: record.joinToken(), expiresAt: soon() }
    return send(response, 200, joinCredential.parse(credential))
  }
  if (call === 'PUT /v1/progress') record.progress.push(jobProgress.parse(body))
  else if (/^PUT \/v1\/outputs(\?component=[a-z0-9_-]+)?$/.test(call))
    record.putOutputs = jobOutputs.parse(body)
  else if (call === 'PUT /v1/result') record.result = jobResult.parse(body)
  else return send(response, 404, { error: { code: 'not_found', message: `no ${call}`, requestId: 'r' } })
  send(response, 200, {})
}

export function soon(): string {
  return new Date(Date.now() + 600_000).toISOString()
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  return text === '' ? undefined : JSON.parse(text)
}

function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}
