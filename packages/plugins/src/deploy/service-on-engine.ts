import type { Json } from '@tenon/core'
import {
  logsRequest,
  MAX_SERVICE_LOG_LINES,
  MAX_SERVICE_REPLICAS,
  serviceSpec,
  type ServiceSpec,
  type ServiceState,
} from '@tenon/protocol'
import { z } from 'zod'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import type { ServiceApi } from '../sdk/service-api.ts'
import { firstProblem, waitForHealth } from './health.ts'
import { envOf, type ImageService, type ServiceParts } from './image-service.ts'
import { MASKED } from './masking.ts'
import { countChanges, planAnswer, planOf, type PlanChange } from './plan.ts'
import { evaluatePolicies } from './policies.ts'
import { approvedContent, keepPlan } from './saved-plan.ts'
import {
  describeReplica,
  missingReplicas,
  problemOf,
  waitUntilServing,
  watchService,
} from './service-watch.ts'

/** As the install store keeps it: all of the service, and which generation it was made for. */
const savedService = z.strictObject({
  version: z.literal(1),
  base: z.string(),
  spec: serviceSpec,
  healthPath: z.string().nullable(),
})

interface Context extends ServiceParts {
  api: ServiceApi
}

/** Containers of the agent's own engine, Docker or Podman: the agent makes them, the job says when they are well. */
export function serviceOnEngine(parts: ServiceParts): ImageService {
  const context = { ...parts, api: parts.work.api.service(parts.work.name) }
  return {
    plan: () => plan(context),
    deploy: () => deploy(context),
    status: () => status(context),
    destroy: () => destroy(context),
    logs: () => logs(context),
    debug: () => debug(context),
  }
}

async function plan(context: Context): Promise<OperationResult> {
  const { work, wanted, image, api } = context
  const spec = specOf(context)
  const state = await api.look()
  const changes = await changesFor(context, state, spec)
  const healthPath = wanted.health_path ?? null
  const digest = await keepPlan(work, { base: baseOf(state), spec, healthPath })
  const hasChanges = changes.length > 0
  const findings = evaluatePolicies(work.config.policies, {
    plan: { changes: changes as never, counts: countChanges(changes), hasChanges },
    resources: [{ kind: 'Service', name: state.host, ...factsOf(context, spec) }],
    images: [image().reference],
    component: { name: work.name, type: work.config.type },
  })
  const healthy = state.current === null ? null : (await problemNow(context, state)) === undefined
  return planAnswer(planOf({ digest, hasChanges, healthy, changes, findings }, work.masker))
}

async function status(context: Context): Promise<OperationResult> {
  const { work, api } = context
  const state = await api.look()
  const changes = await changesFor(context, state, specOf(context))
  const problem = await problemNow(context, state)
  const [isDrifted, healthy] = [changes.length > 0, problem === undefined]
  const shown = planOf({ digest: null, hasChanges: isDrifted, healthy, changes, findings: [] }, work.masker)
  const drift = isDrifted ? 'What runs differs from what was deployed.' : 'What runs is what was deployed.'
  const message = problem === undefined ? drift : `It is not well: ${problem}`
  return { ok: healthy, message, data: { healthy, isDrifted, plan: shown as unknown as Json } }
}

async function deploy(context: Context): Promise<OperationResult> {
  const { work, api, wanted } = context
  const before = await api.look()
  const approved = await approvedContent(work, savedService, async () => baseOf(before))
  const spec = approved?.spec ?? specOf(context)
  const healthPath = (approved ? approved.healthPath : wanted.health_path) ?? undefined
  const timeoutMs = Math.max(10_000, work.manifest.limits.timeoutSeconds * 700)
  const watch = watchService(api)
  let isSettled = false
  try {
    const { changed } = await api.bring(spec)
    if (changed) work.log(`brought up ${spec.replicas} beside ${before.current?.replicas.length ?? 0}`)
    const problem = await waitUntilServing(work, watch, { healthPath, timeoutMs })
    if (problem !== undefined) return changed ? await rolledBack(context, before, problem) : notWell(problem)
    await api.settle('new')
    isSettled = true
    const own = { cwd: work.workDir, patienceMs: timeoutMs / 2, isNear: true as const, watch }
    const unwell = await waitForHealth(work, work.health, own)
    if (unwell !== undefined) return notWell(unwell)
    return served(context, spec, before.host, changed)
  } catch (error) {
    if (isSettled) throw error
    if (!isPluginError(error) || error.code !== 'job_api_refused') {
      await api.settle('old').catch(() => undefined)
      throw error
    }
    return rolledBack(context, before, `${error.message} ${error.remedy}`.trim())
  }
}

function served(
  { work, image }: Context,
  spec: ServiceSpec,
  host: string,
  changed: boolean,
): OperationResult {
  const { replicas, port } = spec
  const count = `${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`
  return {
    ok: true,
    message: changed
      ? `${count} of ${work.name} run and answer as ${host}:${port}.`
      : `${count} of ${work.name} run as they did.`,
    data: { image: image().reference, host, port, replicas },
    outputs: { host: { sensitive: false, value: host }, port: { sensitive: false, value: port } },
  }
}

async function rolledBack(
  { api }: Context,
  { current }: ServiceState,
  problem: string,
): Promise<OperationResult> {
  await api.settle('old')
  const rest =
    current === null ? 'removed again; nothing of it runs' : 'rolled back; what ran before still runs'
  const message = `It did not become healthy and was ${rest}. The reason: ${problem}`
  return { ok: false, message, data: { reason: problem.slice(0, 1500), state: 'rolled-back' } }
}

function notWell(problem: string): OperationResult {
  const message = `It runs, but is not healthy; what was deployed stays. The reason: ${problem}`
  return { ok: false, message, data: { reason: problem.slice(0, 1500), state: 'failed' } }
}

async function destroy({ api }: Context): Promise<OperationResult> {
  const { current, next } = await api.look()
  await api.remove()
  const count = (current?.replicas.length ?? 0) + (next?.replicas.length ?? 0)
  const message = count === 0 ? 'There was nothing to remove.' : `Removed ${count} containers.`
  return { ok: true, message, data: {} }
}

async function logs({ work, api }: Context): Promise<OperationResult> {
  const { tailLines, pod, follow } = work.config.logs ?? logsRequest.parse({})
  const { replicas } = await api.logs(Math.min(tailLines, MAX_SERVICE_LOG_LINES))
  const asked = replicas.filter(({ name }) => pod === undefined || pod === name)
  for (const { name, text } of asked) {
    for (const line of text.split('\n')) if (line !== '') work.log(`${name}: ${line}`)
  }
  if (asked.length === 0) return { ok: false, message: `No container of ${work.name} is there.`, data: {} }
  const note = follow ? ' On an engine a log is not followed: ask again for more.' : ''
  const containers = asked.map(({ name }) => name)
  return { ok: true, message: `The log of ${asked.length} containers.${note}`, data: { containers } }
}

async function debug(context: Context): Promise<OperationResult> {
  const { work, api } = context
  if ((work.config.debug?.command.length ?? 0) > 0) {
    const message = `No command can be run in ${work.name} here: on a container engine only its state and log can be asked for.`
    return { ok: false, message, data: {} }
  }
  const { current, next } = await api.look()
  const replicas = [current, next].flatMap((generation) => generation?.replicas ?? [])
  const lines = replicas.map((replica) => `${replica.name}: ${describeReplica(replica)}`)
  for (const line of lines) work.log(line)
  const troubled = replicas.find(({ isRunning }) => !isRunning)
  const isWell = replicas.length > 0 && troubled === undefined
  const well =
    replicas.length === 0 ? `${work.name} runs nothing.` : `${replicas.length} run, and no trouble.`
  return { ok: isWell, message: troubled ? describeReplica(troubled) : well, data: { replicas: lines } }
}

async function problemNow(context: Context, { current }: ServiceState): Promise<string | undefined> {
  const { work, wanted } = context
  const problem = await problemOf(work, current ?? undefined, wanted.health_path)
  if (problem !== undefined || work.health === null) return problem
  return firstProblem(work, work.health.probes, { cwd: work.workDir, isNear: true })
}

/** What would be made anew, field by field, and replicas that are not there or do not run. */
async function changesFor(
  { work, api, ...context }: Context,
  state: ServiceState,
  spec: ServiceSpec,
): Promise<PlanChange[]> {
  const { current, host } = state
  const address = `service.${host}`
  if (current === null) {
    return [{ action: 'create', address, after: factsOf({ work, api, ...context }, spec) }]
  }
  const { changes } = await api.compare(spec)
  const side = (which: 'before' | 'after') =>
    Object.fromEntries(changes.flatMap((each) => (each[which] === null ? [] : [[each.field, each[which]]])))
  const changed: PlanChange[] =
    changes.length === 0 ? [] : [{ action: 'update', address, before: side('before'), after: side('after') }]
  const missing = missingReplicas(current).map((number): PlanChange => {
    return { action: 'create', address: `${address}.replica.${number}`, after: { state: 'running' } }
  })
  const down = current.replicas.filter(({ isRunning }) => !isRunning)
  const dead = down.map((replica): PlanChange => {
    const before = { state: describeReplica(replica) }
    return {
      action: 'update',
      address: `${address}.replica.${replica.number}`,
      before,
      after: { state: 'running' },
    }
  })
  return [...changed, ...missing, ...dead]
}

function factsOf({ image }: Context, { replicas, port, command, env }: ServiceSpec): { [key: string]: Json } {
  const names = Object.keys(env).map((name) => [name, MASKED])
  return {
    image: image().reference,
    replicas,
    port,
    ...(command === undefined ? {} : { command }),
    env: Object.fromEntries(names) as Json,
  }
}

function specOf({ wanted, work }: Context): ServiceSpec {
  const { replicas, port, command } = wanted
  const spec = { replicas, port, ...(command === undefined ? {} : { command }), env: envOf(wanted) }
  const parsed = serviceSpec.safeParse(spec)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.slice(0, 3).map(({ path, message }) => `${path.join('.')}: ${message}`)
  const message = `${work.name} cannot run on a container engine as it is configured: ${issues.join('; ')}.`
  const remedy = `Correct the named fields; replicas are 1 to ${MAX_SERVICE_REPLICAS} there.`
  throw new PluginError('config_invalid', message, remedy)
}

/** What a plan was made for. */
function baseOf({ current }: ServiceState): string {
  return current?.id ?? 'nothing'
}
