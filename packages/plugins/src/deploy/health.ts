import { setTimeout as delay } from 'node:timers/promises'
import type { ComponentJobConfig } from '@tenon/protocol'
import { canceled } from '../sdk/errors.ts'
import { httpTrouble, tcpTrouble, type Trouble } from './probe.ts'
import { runTool, type ToolContext } from './run-tool.ts'

type Health = NonNullable<ComponentJobConfig['health']>
type Probe = Health['probes'][number]

const COMMAND_MS = 10_000
const PAUSE_MS = 1000

export interface HealthOptions {
  /** How long a probe that fails is tried again. */
  patienceMs: number
  cwd: string
  /** For commands: what the component's own programs get. */
  env?: Record<string, string>
  /** What is probed stands in a network of this job's own: no proxy leads there. */
  isNear?: true
  /** What runs it, where that can be asked: a probe of something that died tells only that nobody answers. */
  watch?: Watch
}

type Looking = Pick<HealthOptions, 'cwd' | 'env' | 'isNear'>

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
    const trouble = await firstTrouble(context, health.probes, options)
    const problem = trouble?.words
    const now = Date.now()
    if (problem === undefined) {
      goodSince ??= now
      if (now - goodSince >= windowMs) return undefined
    } else {
      if (goodSince !== undefined) context.log(`health: ${problem}`)
      goodSince = undefined
      if (now >= giveUp || trouble?.isRefused) return problem
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
  options: Looking,
): Promise<string | undefined> {
  return (await firstTrouble(context, probes, options))?.words
}

async function firstTrouble(
  context: ToolContext,
  probes: readonly Probe[],
  options: Looking,
): Promise<Trouble | undefined> {
  for (const probe of probes) {
    const trouble = await troubleOf(context, probe, options)
    if (trouble !== undefined)
      return { ...trouble, words: `the probe ${probe.name || probe.type} failed: ${trouble.words}` }
  }
  return undefined
}

async function troubleOf(context: ToolContext, probe: Probe, options: Looking): Promise<Trouble | undefined> {
  const way = options.isNear ? { signal: context.signal, baseEnv: {} } : context
  if (probe.type === 'http') return httpTrouble(way, probe.url ?? '')
  if (probe.type === 'tcp') return tcpTrouble(way, probe.url ?? '')
  const words = await commandProblem(context, probe.command ?? 'exit 0', options)
  return words === undefined ? undefined : { words }
}

async function commandProblem(
  context: ToolContext,
  command: string,
  options: Looking,
): Promise<string | undefined> {
  const end = await runTool(context, {
    program: '/bin/sh',
    args: ['-c', command],
    cwd: options.cwd,
    env: options.env ?? {},
    timeoutMs: COMMAND_MS,
  }).catch((error: unknown) => (error instanceof Error ? error.message : String(error)))
  if (typeof end === 'string') return end
  const said = `${end.stdout}${end.stderr}`.trim().split('\n').at(-1) ?? ''
  return end.code === 0 ? undefined : `${command} ended with code ${end.code} ${said}`.trim().slice(0, 500)
}
