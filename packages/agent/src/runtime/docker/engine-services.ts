import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { EngineError, engineProblem } from './engine-http.ts'
import type { EngineCall } from './engine-http.ts'
import { parseFrames } from './exec-in-container.ts'

/** What services need of the Engine API besides what jobs do. */
export interface ServiceEngine {
  service(name: string): Promise<ServiceContainer | undefined>
  /** SIGTERM, then SIGKILL; one that does not run, or is gone, is left alone. */
  stop(name: string, graceSeconds: number): Promise<void>
  /** The last lines of both streams, at most some `maxBytes` of them; empty for a container that is gone. */
  lastLines(name: string, lines: number, maxBytes: number): Promise<string>
  /** One that is there already is fine. */
  createNetwork(name: string, labels: Record<string, string>): Promise<void>
  hasNetwork(name: string): Promise<boolean>
  /** False while something is connected to it. */
  removeNetwork(name: string): Promise<boolean>
  /** One that is connected already stays as it is. */
  connect(network: string, container: string, aliases: string[]): Promise<void>
  disconnect(network: string, container: string): Promise<void>
}

export interface ServiceContainer {
  name: string
  labels: Record<string, string>
  env: string[]
  status: string
  isRunning: boolean
  wasOomKilled: boolean
  exitCode: number
  error: string
  restarts: number
  networks: Record<string, { address: string; aliases: string[] }>
}

const serviceSchema = z.object({
  Name: z.string(),
  RestartCount: z.number().nullish(),
  Config: z.object({
    Labels: z.record(z.string(), z.string()).nullish(),
    Env: z.array(z.string()).nullish(),
  }),
  State: z.object({
    Status: z.string(),
    Running: z.boolean(),
    Restarting: z.boolean().nullish(),
    OOMKilled: z.boolean().nullish(),
    ExitCode: z.number(),
    Error: z.string().nullish(),
  }),
  NetworkSettings: z.object({
    Networks: z
      .record(
        z.string(),
        z.object({ IPAddress: z.string().nullish(), Aliases: z.array(z.string()).nullish() }),
      )
      .nullish(),
  }),
})

export interface EngineCalls {
  call(request: EngineCall): Promise<IncomingMessage>
  ask<T>(schema: z.ZodType<T>, request: EngineCall): Promise<T>
  tell(request: EngineCall): Promise<void>
}

export function createServiceEngine({ call, ask, tell }: EngineCalls): ServiceEngine {
  const hasNetwork = async (name: string) => {
    const found = ask(z.unknown(), { method: 'GET', path: network(name) })
    return found.then(
      () => true,
      (error: unknown) => fallback(error, ['not_found'], false),
    )
  }
  return {
    async service(name) {
      const found = ask(serviceSchema, { method: 'GET', path: container(name, '/json') })
      return found.then(serviceOf, (error: unknown) => fallback(error, ['not_found'], undefined))
    },
    async stop(name, graceSeconds) {
      const query = { t: String(graceSeconds) }
      const path = container(name, '/stop')
      await tell({ method: 'POST', path, query }).catch((error: unknown) =>
        fallback(error, ['not_found', 'conflict'], undefined),
      )
    },
    async lastLines(name, lines, maxBytes) {
      const query = { stdout: '1', stderr: '1', tail: String(lines) }
      return readLog(await call({ method: 'GET', path: container(name, '/logs'), query }), maxBytes)
    },
    async createNetwork(name, labels) {
      if (await hasNetwork(name)) return
      const body = { Name: name, Driver: 'bridge', CheckDuplicate: true, Labels: labels }
      await tell({ method: 'POST', path: '/networks/create', body }).catch(async (error: unknown) => {
        // Another call was quicker: Docker says 409 then, Podman 500.
        if (!(error instanceof EngineError) || !(await hasNetwork(name))) throw error
      })
    },
    hasNetwork,
    async removeNetwork(name) {
      return tell({ method: 'DELETE', path: network(name) }).then(
        () => true,
        async (error: unknown) => {
          if (!(error instanceof EngineError) || error.code === 'unreachable') throw error
          return !(await hasNetwork(name))
        },
      )
    },
    async connect(name, joining, aliases) {
      const body = { Container: joining, EndpointConfig: { Aliases: aliases } }
      await tell({ method: 'POST', path: network(name, '/connect'), body }).catch((error: unknown) => {
        const isThere = error instanceof EngineError && /already|is connected/i.test(error.message)
        if (!isThere) throw error
      })
    },
    async disconnect(name, leaving) {
      const body = { Container: leaving, Force: true }
      await tell({ method: 'POST', path: network(name, '/disconnect'), body }).catch((error: unknown) => {
        const isAway = error instanceof EngineError && /not connected|no such container/i.test(error.message)
        if (!isAway) throw error
      })
    },
  }
}

function container(name: string, verb: string): string {
  return `/containers/${encodeURIComponent(name)}${verb}`
}

function network(name: string, verb = ''): string {
  return `/networks/${encodeURIComponent(name)}${verb}`
}

function serviceOf({
  Name,
  RestartCount,
  Config,
  State,
  NetworkSettings,
}: z.infer<typeof serviceSchema>): ServiceContainer {
  const networks = Object.entries(NetworkSettings.Networks ?? {}).map(([name, endpoint]) => {
    return [name, { address: endpoint.IPAddress ?? '', aliases: endpoint.Aliases ?? [] }] as const
  })
  return {
    name: Name.replace(/^\//, ''),
    labels: Config.Labels ?? {},
    env: Config.Env ?? [],
    status: State.Status,
    // Docker says of one that waits for its next start that it runs.
    isRunning: State.Running && State.Restarting !== true,
    wasOomKilled: State.OOMKilled ?? false,
    exitCode: State.ExitCode,
    error: State.Error ?? '',
    restarts: RestartCount ?? 0,
    networks: Object.fromEntries(networks),
  }
}

async function readLog(answer: IncomingMessage, maxBytes: number): Promise<string> {
  if (answer.statusCode === 404) return ''
  const bytes = await lastBytes(answer, maxBytes)
  if ((answer.statusCode ?? 0) >= 400) throw engineProblem(answer.statusCode ?? 0, bytes.toString())
  return bytes.toString()
}

/** The end of what the engine tells, out of its frames; what came before it is let go while it is read. */
async function lastBytes(answer: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const isError = (answer.statusCode ?? 0) >= 400
  let frames: Buffer = Buffer.alloc(0)
  let kept: Buffer = Buffer.alloc(0)
  const keep = (bytes: Uint8Array) => (kept = Buffer.from(Buffer.concat([kept, bytes]).subarray(-maxBytes)))
  for await (const bytes of answer as AsyncIterable<Buffer>) {
    if (isError) keep(bytes)
    else {
      const { chunks, rest } = parseFrames(Buffer.concat([frames, bytes]))
      frames = rest
      for (const chunk of chunks) keep(chunk.bytes)
    }
  }
  return kept
}

function fallback<T>(error: unknown, codes: EngineError['code'][], value: T): T {
  if (error instanceof EngineError && codes.includes(error.code)) return value
  throw error
}
