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
  /** What runs it, where that can be asked: a probe of something that died tells only that nobody answers. */
  watch?: Watch
}

export interface Watch {
  /** A reason for which waiting on is useless. */
  look(): Promise<string | undefined>
  /** When the probes gave up: the worst that was seen. */
  worst(): Promise<string | undefined>
}

/** Why the component is not well; undefined when all of its probes were good for the whole window. */
export async function waitForHealth(
  context: ToolContext,
  health: Health | null,
  options: HealthOptions,
): Promise<string | undefined> {
  if (health === null || health.probes.length === 0) return undefined
  const { watch } = options
  if (watch === undefined) return probeUntilWell(context, health, options)
  const over = new AbortController()
  const signal = AbortSignal.any([context.signal, over.signal])
  const probing = probeUntilWell({ ...context, signal }, health, options)
  const watching = watchUntilLost(watch, signal)
  try {
    const problem = await Promise.race([probing, watching])
    if (context.signal.aborted) throw canceled()
    return problem && ((await watch.worst()) ?? problem)
  } finally {
    over.abort()
    await Promise.allSettled([probing, watching])
  }
}

/** Beside the probes, since one that hangs would hide a crash until its time is over. */
async function watchUntilLost(watch: Watch, signal: AbortSignal): Promise<string | undefined> {
  for (;;) {
    const reason = await watch.look()
    if (reason !== undefined || signal.aborted) return reason
    await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return undefined
  }
}

async function probeUntilWell(
  context: ToolContext,
  health: Health,
  options: HealthOptions,
): Promise<string | undefined> {
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
  if (probe.type === 'tcp') return tcpProblem(probe.url ?? '', context.signal)
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

function tcpProblem(url: string, signal: AbortSignal): Promise<string | undefined> {
  const [, host = '', port = ''] = /^(?:tcp:\/\/)?\[?([^\]/]+?)\]?:(\d+)\/?$/.exec(url) ?? []
  if (host === '') return Promise.resolve(`${url} is not host:port`)
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port), timeout: PROBE_MS })
    const end = (problem: string | undefined) => {
      socket.destroy()
      signal.removeEventListener('abort', abort)
      resolve(problem)
    }
    const abort = () => end(`${url} was not waited for`)
    signal.addEventListener('abort', abort)
    socket.on('connect', () => end(undefined))
    socket.on('timeout', () => end(`${url} does not accept a connection in time`))
    socket.on('error', (error) => end(`${url} refuses a connection: ${error.message}`))
  })
}
