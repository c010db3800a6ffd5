import { chmod, chown, rm } from 'node:fs/promises'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import type { Relay } from '../egress/relay.ts'
import { AgentError } from '../ground/errors.ts'
import { answer, answerError, JobApiError } from './answer.ts'
import type { OwnCertificate } from './certificate.ts'
import type { JobAccess } from './route.ts'
import { callRoute } from './routes.ts'
import { tokenOf } from './token.ts'

export interface JobApiOptions {
  /** In a folder that only this user can enter; a socket left there by an earlier life is replaced. */
  socket: string
  /** May connect besides this user; see `RuntimeTraits`. */
  jobGroup?: number | undefined
  /** What the job this token belongs to may ask for, as long as it runs. */
  authenticate: (token: string) => JobAccess | undefined
  /** For jobs that see no socket of the agent. */
  secure?: { host: string; port: number; certificate: OwnCertificate } | undefined
  /** The way out for jobs, which they ask for by CONNECT. */
  relay?: Relay | undefined
  log: Logger
}

export interface JobApi {
  /** Of the TLS listener, where there is one. */
  securePort: number | undefined
  close(): Promise<void>
}

/** The agent's local endpoint for jobs. */
export async function serveJobApi(options: JobApiOptions): Promise<JobApi> {
  const { socket, secure } = options
  const times = { requestTimeout: 60_000, headersTimeout: 10_000 }
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    handle(options, request, response).catch((error: unknown) => {
      options.log.error({ err: error }, 'a call of a job could not be answered')
      response.destroy()
    })
  }
  await rm(socket, { force: true })
  const local = serveTunnels(options, http.createServer(times, answer))
  await listen(local, () => local.listen(socket))
  if (options.jobGroup !== undefined) await openToGroup(socket, options.jobGroup)
  if (secure === undefined) return { securePort: undefined, close: () => close([local], options.relay) }
  const tls = { ...times, ...secure.certificate, minVersion: 'TLSv1.3' as const }
  const remote = serveTunnels(options, https.createServer(tls, answer))
  try {
    await listen(remote, () => remote.listen(secure.port, secure.host))
  } catch (error) {
    await close([local])
    throw error
  }
  return {
    securePort: (remote.address() as AddressInfo).port,
    close: () => close([local, remote], options.relay),
  }
}

/** A tunnel is authenticated once and carries what it carries; the job's own end closes it. */
function serveTunnels<S extends http.Server | https.Server>(options: JobApiOptions, server: S): S {
  server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => undefined)
    const token = tokenOf(request.headers.authorization)
    const access = token === undefined ? undefined : options.authenticate(token)
    const { relay } = options
    if (access === undefined || relay === undefined) {
      socket.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
      return
    }
    void relay.connect(access.egress, request, socket, head)
  })
  return server
}

function listen(server: http.Server | https.Server, open: () => void): Promise<void> {
  server.on('clientError', (_error, socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.once('listening', resolve)
    open()
  })
}

async function close(servers: (http.Server | https.Server)[], relay?: Relay): Promise<void> {
  relay?.close()
  await Promise.all(
    servers.map(
      (server) =>
        new Promise<void>((resolve) => {
          server.close(() => resolve())
          server.closeAllConnections()
        }),
    ),
  )
}

async function openToGroup(socket: string, group: number): Promise<void> {
  await chown(socket, process.getuid?.() ?? 0, group)
  await chmod(socket, 0o660)
}

async function handle(
  options: JobApiOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let jobId: string | undefined
  try {
    const token = tokenOf(request.headers.authorization)
    const access = token === undefined ? undefined : options.authenticate(token)
    if (!access) throw unauthorized()
    jobId = access.jobId
    answer(response, await callRoute(access, request))
  } catch (error) {
    const coded = toJobApiError(error)
    if (coded.code === 'internal') options.log.error({ err: error, jobId }, 'job API failed')
    else options.log.info({ code: coded.code, jobId, method: request.method }, 'job API refused a call')
    if (!response.headersSent) answerError(response, coded)
  } finally {
    request.resume()
  }
}

function toJobApiError(error: unknown): JobApiError {
  if (error instanceof JobApiError) return error
  if (error instanceof AgentError) {
    const { message, remedy } = error
    if (error.code === 'server_away' || error.code === 'registry_unavailable') {
      return new JobApiError('unavailable', message, remedy, { cause: error })
    }
    if (error.code === 'credential_refused') {
      return new JobApiError('forbidden', message, remedy, { cause: error })
    }
  }
  return new JobApiError('internal', 'The agent failed to answer.', "Look at the agent's own log.", {
    cause: error,
  })
}

function unauthorized(): JobApiError {
  return new JobApiError(
    'unauthorized',
    'No running job has this token.',
    'Send `Authorization: Bearer` with the content of the file TENON_JOB_TOKEN_FILE, or that as basic password.',
  )
}
