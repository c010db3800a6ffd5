import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PlanResult } from '@tenon/protocol'
import { firstProblem } from '../deploy/health.ts'
import { componentOperation, type Work } from '../deploy/operation.ts'
import { countChanges, planAnswer, planOf } from '../deploy/plan.ts'
import { evaluatePolicies } from '../deploy/policies.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import { terraformConfig, type TerraformConfig } from './config.ts'
import { readPlan } from './read-plan.ts'
import { packPlan } from './saved-plan.ts'
import { varArgs, withWorkspace, type Workspace } from './workspace.ts'

const PARALLELISM = '-parallelism=4'
const LOCK_WAIT = '-lock-timeout=60s'

export const plan = componentOperation(terraformConfig, async (work) =>
  withWorkspace(work, async (workspace) => planAnswer(await makePlan(work, workspace, true))),
)

/** A drift is a plan that is not empty although nothing was asked for. */
export const status = componentOperation(terraformConfig, async (work) =>
  withWorkspace(work, async (workspace): Promise<OperationResult> => {
    const found = await makePlan(work, workspace, false)
    const { hasChanges, healthy } = found
    const message = hasChanges
      ? 'What is there differs from what was deployed.'
      : 'What is there is what was deployed.'
    return { ok: healthy !== false, message, data: { isDrifted: hasChanges, healthy, plan: found as never } }
  }),
)

async function makePlan(
  work: Work<TerraformConfig>,
  workspace: Workspace,
  isKept: boolean,
): Promise<PlanResult> {
  const file = join(work.workDir, 'plan.tfplan')
  const flags = ['-input=false', '-no-color', '-detailed-exitcode', PARALLELISM, `-out=${file}`]
  const lock = isKept ? [LOCK_WAIT] : ['-lock=false']
  const end = await workspace.must(['plan', ...flags, ...lock, ...varArgs(workspace)], { codes: [0, 2] })
  const shown = await workspace.must(['show', '-json', '-no-color', file], { isLogged: false })
  const { changes, resources } = readPlan(shown.stdout)
  const hasChanges = end.code === 2
  const digest = isKept
    ? await work.api.putPlan(work.name, packPlan(workspace.engine, await readFile(file)))
    : null
  const problem = work.health && (await firstProblem(work, work.health.probes, { cwd: work.workDir }))
  const findings = evaluatePolicies(work.config.policies, {
    plan: { changes: changes as never, counts: countChanges(changes), hasChanges },
    resources,
    images: [],
    component: { name: work.name, type: work.config.type },
  })
  const healthy = work.health ? problem === undefined : null
  return planOf({ digest, hasChanges, healthy, changes, findings }, work.masker)
}
