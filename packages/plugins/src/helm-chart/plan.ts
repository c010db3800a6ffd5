import type { PlanResult } from '@tenon/protocol'
import { firstProblem } from '../deploy/health.ts'
import { componentOperation } from '../deploy/operation.ts'
import { countChanges, planAnswer, planOf, type PlanChange } from '../deploy/plan.ts'
import { evaluatePolicies } from '../deploy/policies.ts'
import { keepPlan } from '../deploy/saved-plan.ts'
import { changesBetween } from '../kubernetes/changes.ts'
import { asJson } from '../kubernetes/objects.ts'
import { look } from '../kubernetes/watch.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import { helmConfig } from './config.ts'
import { openChart, openHelm, type Helm } from './helm.ts'
import { readRelease, releaseBase, type Release } from './release.ts'
import { renderChart, type RenderedChart } from './render.ts'

export const plan = componentOperation(helmConfig, async (work): Promise<OperationResult> => {
  const helm = await openHelm(work)
  const release = await readRelease(helm)
  const rendered = await renderChart(helm, await openChart(work), release.stuck !== undefined)
  const changes = changesOf(release, rendered)
  const hasChanges = changes.length > 0 || release.deployed === undefined || release.stuck !== undefined
  const { objects, hooks, crds, images } = rendered
  const digest = await keepPlan(work, { base: releaseBase(release), objects, hooks, crds })
  const findings = evaluatePolicies(work.config.policies, {
    plan: { changes: changes as never, counts: countChanges(changes), hasChanges },
    resources: [...objects, ...hooks, ...crds].map(asJson),
    images,
    component: { name: work.name, type: work.config.type, namespace: helm.namespace },
  })
  const healthy = await isWell(helm, release)
  const made: PlanResult = planOf({ digest, hasChanges, healthy, changes, findings }, work.masker)
  const note =
    release.stuck === undefined
      ? ''
      : `The release is left in ${release.stuck}; the deploy recovers it first.`
  return planAnswer(made, note)
})

/** Hooks run with every change, so a hook that changes is one. What lies in crds/ is made once, with the first install. */
function changesOf(release: Release, { objects, hooks, crds }: RenderedChart): PlanChange[] {
  const isFirst = release.history.length === 0
  return changesBetween(
    [...release.objects, ...release.hooks],
    [...(isFirst ? crds : []), ...objects, ...hooks],
  )
}

export const status = componentOperation(helmConfig, async (work): Promise<OperationResult> => {
  const helm = await openHelm(work)
  const release = await readRelease(helm)
  const { deployed, stuck } = release
  if (deployed === undefined) {
    const data = { healthy: false, isDrifted: true, status: stuck ?? 'absent' }
    return { ok: false, message: `There is no release ${helm.release} in ${helm.namespace}.`, data }
  }
  const troubles = await look(helm.cluster, release.objects, helm.namespace)
  const problem =
    troubles[0]?.reason ??
    (work.health && (await firstProblem(work, work.health.probes, { cwd: work.workDir })))
  const healthy = problem === undefined || problem === null
  const data = { healthy, isDrifted: false, status: stuck ?? 'deployed', revision: deployed.revision }
  const message = healthy
    ? `Revision ${deployed.revision} of ${helm.release} is well.`
    : `It is not well: ${problem}`
  return { ok: healthy, message, data }
})

async function isWell(helm: Helm, release: Release): Promise<boolean | null> {
  if (release.deployed === undefined) return null
  if (release.stuck !== undefined) return false
  const troubles = await look(helm.cluster, release.objects, helm.namespace)
  if (troubles.length > 0) return false
  const { work } = helm
  const problem = work.health && (await firstProblem(work, work.health.probes, { cwd: work.workDir }))
  return problem === undefined || problem === null
}
