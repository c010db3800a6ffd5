import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { MAX_STATE_BYTES, stateLock } from '@tenon/protocol'
import { errorLine } from './errors.ts'
import type { JobApi, StateCall } from './job-api.ts'

const METHODS: readonly string[] = ['GET', 'POST', 'DELETE', 'LOCK', 'UNLOCK']
const USERNAME = 'tenon'
/** While the agent restarts, the bridge waits; Terraform itself gives up only after this many tries. */
const RETRIES = 5

export interface BridgeOptions {
  api: Pick<JobApi, 'terraformState'>
  log: (line: string) => void
}

/** Where Terraform finds its state inside a job. */
export interface StateBridge {
  /**
   * For `terraform` with `backend "http" {}`. Through the environment, not `-backend-config`: what is in the
   * environment goes into no saved plan and no `.terraform` folder.
   */
  env(component: string): Record<string, string>
  close(): Promise<void>
}

/**
 * Terraform speaks HTTP over TCP with basic authentication; the job API does not. The bridge listens on loopback
 * with a password of its own and passes each call on through the job's client, which waits for an absent agent.
 */
export async function openStateBridge(options: BridgeOptions): Promise<StateBridge> {
  const password = randomBytes(32).toString('base64url')
  const expected = `Basic ${Buffer.from(`${USERNAME}:${password}`).toString('base64')}`
  const server = createServer((request, response) => {
    answer(options, expected, request, response).catch((error: unknown) => {
      options.log(errorLine(error))
      // Not one that Terraform would repeat: the client has been patient already.
      reply(response, 400, Buffer.from(errorLine(error)))
    })
  })
  server.on('clientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    env: (component) => {
      const address = `http://127.0.0.1:${port}/${encodeURIComponent(component)}`
      return {
        TF_HTTP_ADDRESS: address,
        TF_HTTP_LOCK_ADDRESS: address,
        TF_HTTP_UNLOCK_ADDRESS: address,
        TF_HTTP_USERNAME: USERNAME,
        TF_HTTP_PASSWORD: password,
        TF_HTTP_RETRY_MAX: String(RETRIES),
      }
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function answer(
  { api, log }: BridgeOptions,
  expected: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://bridge')
  if (!isSame(request.headers.authorization ?? '', expected)) return reply(response, 401)
  const method = request.method ?? ''
  if (!METHODS.includes(method)) return reply(response, 405)
  const body = await readBody(request)
  if (!body) return reply(response, 413)
  const lockId = url.searchParams.get('ID')
  const contentMd5 = request.headers['content-md5']
  const { status, bytes } = await api.terraformState({
    method: method as StateCall['method'],
    component: decodeURIComponent(url.pathname.slice(1)),
    ...(lockId === null ? {} : { lockId }),
    ...(typeof contentMd5 === 'string' ? { contentMd5 } : {}),
    ...(body.byteLength > 0 ? { body } : {}),
  })
  if (status === 423) tellHolder(bytes, log)
  reply(response, status, bytes)
}

/** Terraform itself prints no more than the id of the lock that is in its way. */
function tellHolder(bytes: Uint8Array, log: (line: string) => void): void {
  const lock = stateLock.safeParse(JSON.parse(Buffer.from(bytes).toString('utf8')))
  if (lock.success) log(`The state is locked: ${lock.data.Operation} of ${lock.data.Who}, ${lock.data.Info}`)
}

async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.byteLength
    if (size > MAX_STATE_BYTES) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts)
}

function isSame(given: string, expected: string): boolean {
  const left = Buffer.from(given)
  const right = Buffer.from(expected)
  return left.byteLength === right.byteLength && timingSafeEqual(left, right)
}

function reply(response: ServerResponse, status: number, bytes: Uint8Array = new Uint8Array()): void {
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.byteLength })
  response.end(bytes)
}
