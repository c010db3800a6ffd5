import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { ComponentJobConfig } from '@tenon/protocol'
import { canceled } from '../sdk/errors.ts'
import { runTool, type ToolContext } from './run-tool.ts'

type Health = NonNullable<ComponentJobConfig['health']>
type Probe = Health['probes'][number]

const PROBE_MS = 5000
const PAUSE_MS = 1000

export interface HealthOptions {
  /** How long a probe that fails is tried again. */
  patienceMs: number
  cwd: string
  /** For commands: what the component's own programs get. */
  env?: Record<string, string>
}

/** Why the component is not well, by its own probes; undefined when all of them were good for the whole window. */
export async function waitForHealth(
  context: ToolContext,
  health: Health | null,
  options: HealthOptions,
): Promise<string | undefined> {
  if (health === null || health.probes.length === 0) return undefined
  const giveUp = Date.now() + options.patienceMs
  const windowMs = health.stabilizationSeconds * 1000
  let goodSince: number | undefined
  for (;;) {
    if (context.signal.aborted) throw canceled()
    const problem = await firstProblem(context, health.probes, options)
    const now = Date.now()
    if (problem === undefined) {
      goodSince ??= now
      if (now - goodSince >= windowMs) return undefined
    } else {
      if (goodSince !== undefined) context.log(`health: ${problem}`)
      goodSince = undefined
      if (now >= giveUp) return problem
    }
    await delay(PAUSE_MS, undefined, { signal: context.signal }).catch((cause: unknown) => {
      throw canceled(cause)
    })
  }
}

/** One look, for a plan or a status. */
export async function firstProblem(
  context: ToolContext,
  probes: readonly Probe[],
  options: Pick<HealthOptions, 'cwd' | 'env'>,
): Promise<string | undefined> {
  for (const probe of probes) {
    const problem = await problemOf(context, probe, options)
    if (problem !== undefined) return `the probe ${probe.name || probe.type} failed: ${problem}`
  }
  return undefined
}

async function problemOf(
  context: ToolContext,
  probe: Probe,
  options: Pick<HealthOptions, 'cwd' | 'env'>,
): Promise<string | undefined> {
  if (probe.type === 'http') return httpProblem(probe.url ?? '', context.signal)
  if (probe.type === 'tcp') return tcpProblem(probe.url ?? '')
  const end = await runTool(context, {
    program: '/bin/sh',
    args: ['-c', probe.command ?? 'exit 0'],
    cwd: options.cwd,
    env: options.env ?? {},
    timeoutMs: PROBE_MS * 2,
  }).catch((error: unknown) => (error instanceof Error ? error.message : String(error)))
  if (typeof end === 'string') return end
  const said = `${end.stdout}${end.stderr}`.trim().split('\n').at(-1) ?? ''
  return end.code === 0
    ? undefined
    : `${probe.command} ended with code ${end.code} ${said}`.trim().slice(0, 500)
}

async function httpProblem(url: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    const timeout = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)])
    const answer = await fetch(url, { signal: timeout, redirect: 'manual' })
    await answer.body?.cancel()
    return answer.status < 400 ? undefined : `${url} answers ${answer.status}`
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    return `${url} does not answer: ${cause instanceof Error ? cause.message : String(cause)}`
  }
}

function tcpProblem(url: string): Promise<string | undefined> {
  const [, host = '', port = ''] = /^(?:tcp:\/\/)?\[?([^\]/]+?)\]?:(\d+)\/?$/.exec(url) ?? []
  if (host === '') return Promise.resolve(`${url} is not host:port`)
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port), timeout: PROBE_MS })
    const end = (problem: string | undefined) => {
      socket.destroy()
      resolve(problem)
    }
    socket.on('connect', () => end(undefined))
    socket.on('timeout', () => end(`${url} does not accept a connection in time`))
    socket.on('error', (error) => end(`${url} refuses a connection: ${error.message}`))
  })
}
