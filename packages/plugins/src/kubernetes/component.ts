import type { Json } from '@tenon/core'
import { firstProblem, waitForHealth } from '../deploy/health.ts'
import type { Work } from '../deploy/operation.ts'
import { countChanges, planAnswer, planOf, type PlanChange } from '../deploy/plan.ts'
import { evaluatePolicies } from '../deploy/policies.ts'
import { approvedPlan, baseOf, keepPlan } from '../deploy/saved-plan.ts'
import type { Closed } from '../deploy/closure.ts'
import type { JobOutputs } from '../sdk/job-api.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import { applyObjects, deleteObjects, isFirst, liveOf, predict, without } from './apply.ts'
import { changesBetween } from './changes.ts'
import type { Cluster } from './cluster.ts'
import { readInventory, removeInventory, writeInventory, type Inventory } from './inventory.ts'
import { ensureNamespace, leaveNamespace } from './namespace.ts'
import { addressOf, asJson, type KubeObject } from './objects.ts'
import { look, waitUntilReady, watchObjects } from './watch.ts'

/** Objects of a component that are applied as they are: planned, applied, pruned, watched and removed. */
export interface Target {
  work: Work<unknown>
  cluster: Cluster
  namespace: string
}

export async function planObjects(target: Target, wanted: Closed): Promise<OperationResult> {
  const { work } = target
  const { changes, inventory } = await changesFor(target, wanted.objects)
  const plan = { base: inventory.base, objects: wanted.objects, hooks: [], crds: [] }
  const digest = await keepPlan(work, plan)
  const hasChanges = changes.length > 0
  const findings = evaluatePolicies(work.config.policies, {
    plan: { changes: changes as never, counts: countChanges(changes), hasChanges },
    resources: wanted.objects.map(asJson),
    images: wanted.images,
    component: { name: work.name, type: work.config.type, namespace: target.namespace },
  })
  const healthy = inventory.objects.length === 0 ? null : (await problemNow(target, inventory)) === undefined
  return planAnswer(planOf({ digest, hasChanges, healthy, changes, findings }, work.masker))
}

export async function statusOfObjects(target: Target, wanted: Closed): Promise<OperationResult> {
  const { changes, inventory } = await changesFor(target, wanted.objects)
  const problem = inventory.objects.length === 0 ? 'nothing is there' : await problemNow(target, inventory)
  const isDrifted = changes.length > 0
  const drift = isDrifted
    ? 'What is there differs from what was deployed.'
    : 'What is there is what was deployed.'
  const plan = planOf(
    { digest: null, hasChanges: isDrifted, healthy: problem === undefined, changes, findings: [] },
    target.work.masker,
  )
  const data = { healthy: problem === undefined, isDrifted, plan: plan as unknown as Json }
  return {
    ok: problem === undefined,
    message: problem === undefined ? drift : `It is not well: ${problem}`,
    data,
  }
}

/** `wanted` is asked for only where no plan was approved. */
export async function deployObjects(target: Target, wanted: () => Promise<Closed>): Promise<OperationResult> {
  const { work, cluster, namespace } = target
  await ensureNamespace(cluster, namespace, work.name)
  const before = await readInventory(cluster, namespace, work.name)
  const approved = await approvedPlan(work, async () => before.base)
  const objects = (approved ?? (await wanted())).objects
  // Noted before anything is made: what dies half way is found and removed by the next attempt.
  await writeInventory(cluster, namespace, work.name, {
    base: '',
    objects: [...before.objects, ...without(objects, before.objects)],
  })
  const first = await applyObjects(cluster, namespace, objects.filter(isFirst))
  const limits = { namespace, timeoutMs: cluster.patienceMs }
  const early = await waitUntilReady(work, cluster, first, limits)
  if (early !== undefined) return notWell(target, early)
  const applied = [
    ...first,
    ...(await applyObjects(
      cluster,
      namespace,
      objects.filter((object) => !isFirst(object)),
    )),
  ]
  const gone = without(before.objects, applied)
  await deleteObjects(cluster, namespace, gone)
  await writeInventory(cluster, namespace, work.name, { base: baseOf(objects), objects: applied })
  work.log(`applied ${applied.length} objects, removed ${gone.length}`)
  const problem =
    (await waitUntilReady(work, cluster, applied, limits)) ??
    (await waitForHealth(work, work.health, {
      cwd: work.workDir,
      env: cluster.env,
      patienceMs: limits.timeoutMs / 2,
      watch: watchObjects(cluster, applied, namespace),
    }))
  if (problem !== undefined) return notWell(target, problem)
  const data = { namespace, applied: applied.length, removed: gone.map(addressOf).slice(0, 100) }
  return {
    ok: true,
    message: `${applied.length} objects run in ${namespace}.`,
    data,
    outputs: outputsOf(namespace, applied),
  }
}

export async function destroyObjects({ work, cluster, namespace }: Target): Promise<OperationResult> {
  const { objects } = await readInventory(cluster, namespace, work.name)
  await deleteObjects(cluster, namespace, objects)
  await removeInventory(cluster, namespace, work.name)
  const stays = await leaveNamespace(cluster, namespace, work.name)
  const message = objects.length === 0 ? 'There was nothing to remove.' : `Removed ${objects.length} objects.`
  return { ok: true, message: stays === undefined ? message : `${message} ${stays}`, data: {} }
}

/** What the component's last deploy put into the cluster. */
export async function objectsThere({ work, cluster, namespace }: Target): Promise<KubeObject[]> {
  return (await readInventory(cluster, namespace, work.name)).objects
}

async function changesFor(
  { cluster, namespace, work }: Target,
  wanted: readonly KubeObject[],
): Promise<{ changes: PlanChange[]; inventory: Inventory }> {
  const inventory = await readInventory(cluster, namespace, work.name)
  const { objects, live } = await predict(cluster, namespace, wanted)
  const gone = await liveOf(cluster, namespace, without(inventory.objects, objects))
  return { changes: changesBetween([...live, ...gone], objects), inventory }
}

async function problemNow(
  { work, cluster, namespace }: Target,
  { objects }: Inventory,
): Promise<string | undefined> {
  const [trouble] = await look(cluster, objects, namespace)
  if (trouble) return trouble.reason
  return (work.health && (await firstProblem(work, work.health.probes, { cwd: work.workDir }))) ?? undefined
}

function notWell({ namespace }: Target, problem: string): OperationResult {
  const message = `Applied, but it did not become healthy; what was applied stays. The reason: ${problem}`
  return { ok: false, message, data: { namespace, reason: problem.slice(0, 1500), state: 'failed' } }
}

function outputsOf(namespace: string, applied: readonly KubeObject[]): JobOutputs {
  const services = applied.filter(({ kind }) => kind === 'Service')
  const hosts = services.map(({ metadata }) => {
    const { name, namespace: place = namespace } = metadata
    return [name, { name, namespace: place, host: `${name}.${place}.svc` }] as const
  })
  return {
    namespace: { sensitive: false, value: namespace },
    services: { sensitive: false, value: Object.fromEntries(hosts) },
  }
}
