import { planOf, type Client, type PlanResult, type RunView } from '@tenon/protocol'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { stepsToName } from './render-run.ts'

/** The whole plan of a component in a run: the run itself shows only what it comes to. */
export async function planOfStep(client: Client, run: RunView, component: string): Promise<PlanResult> {
  const step = run.steps.find(({ key }) => key === `plan:${component}`)
  const job = step?.jobId ? await client.call('jobs.get', { params: { id: step.jobId } }) : undefined
  const plan = planOf(job?.result)
  if (plan) return plan
  const next = step ? `it is ${step.status}; tenon runs show ${run.id}` : stepsToName(run)
  throw new CliError(EXIT.notFound, `the run has no plan of ${component}`, { next })
}
