import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { json } from '@tenon/protocol'
import { z } from 'zod'
import { waitForHealth } from '../deploy/health.ts'
import { componentOperation, type Work } from '../deploy/operation.ts'
import { stale } from '../deploy/saved-plan.ts'
import { complaintOf, toolFailed, type ToolEnd } from '../deploy/run-tool.ts'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { JobOutputs } from '../sdk/job-api.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import { shownEngine } from './engine.ts'
import { terraformConfig, type TerraformConfig } from './config.ts'
import { unpackPlan } from './saved-plan.ts'
import { varArgs, withWorkspace, type Workspace } from './workspace.ts'

const shownOutputs = z.record(
  z.string(),
  z.looseObject({ sensitive: z.boolean().default(false), value: json }),
)
const FLAGS = ['-input=false', '-no-color', '-auto-approve', '-parallelism=4', '-lock-timeout=60s']

export const deploy = componentOperation(terraformConfig, async (work) =>
  withWorkspace(work, async (workspace): Promise<OperationResult> => {
    const { approvedPlan } = work.operation
    if (approvedPlan === null) await apply(workspace, varArgs(workspace))
    else await applyApproved(work, workspace, approvedPlan)
    const outputs = await outputsOf(workspace)
    const problem = await waitForHealth(work, work.health, {
      cwd: work.workDir,
      patienceMs: work.manifest.limits.timeoutSeconds * 250,
    })
    const names = Object.keys(outputs)
    const data = {
      outputs: names,
      engine: shownEngine(workspace.engine),
      ...(approvedPlan === null ? {} : { plan: approvedPlan }),
    }
    if (problem !== undefined) return { ok: false, message: `Applied, but ${problem}`, data, outputs }
    const message = names.length === 0 ? 'Applied.' : `Applied; outputs: ${names.join(', ')}.`
    return { ok: true, message, data, outputs }
  }),
)

export const destroy = componentOperation(terraformConfig, async (work) =>
  withWorkspace(work, async (workspace): Promise<OperationResult> => {
    await workspace.must(['destroy', ...FLAGS, ...varArgs(workspace)])
    return { ok: true, message: 'Destroyed.', data: {} }
  }),
)

/** Exactly the plan that was approved, or nothing: a state that moved on since makes it worthless. */
async function applyApproved(
  work: Work<TerraformConfig>,
  workspace: Workspace,
  digest: string,
): Promise<void> {
  const file = join(work.workDir, 'approved.tfplan')
  const plan = unpackPlan(await approvedPlanOf(work, digest), workspace.engine, digest)
  await writeFile(file, plan, { mode: 0o600 })
  await apply(workspace, [file], (end) => {
    if (/saved plan is stale|plan.*stale/i.test(end.stderr)) throw stale(digest, complaintOf(end))
  })
}

/** Neither engine takes anything back, so a failure must say that part of the change may be there. */
async function apply(workspace: Workspace, what: string[], judge?: (end: ToolEnd) => void): Promise<void> {
  const args = ['apply', ...FLAGS, ...what]
  const end = await workspace.run(args)
  if (end.code === 0) return
  judge?.(end)
  const { code, message, remedy } = toolFailed({ program: workspace.engine.program, args }, end)
  const stays = 'Nothing is rolled back: what was applied before the error stays, and the state knows it.'
  const next = 'Correct the module and deploy again, or deploy an earlier build (tenon deploys rollback).'
  throw new PluginError(code, `${message} ${stays}`, `${next} ${remedy}`)
}

async function approvedPlanOf(work: Work<TerraformConfig>, digest: string): Promise<Uint8Array> {
  try {
    return await work.api.plan(digest)
  } catch (error) {
    if (isPluginError(error) && error.code === 'job_api_refused') throw stale(digest, error.message)
    throw error
  }
}

async function outputsOf(workspace: Workspace): Promise<JobOutputs> {
  const { stdout } = await workspace.must(['output', '-json', '-no-color'], { isLogged: false })
  const entries = Object.entries(shownOutputs.parse(JSON.parse(stdout)))
  return Object.fromEntries(entries.map(([name, { sensitive, value }]) => [name, { sensitive, value }]))
}
