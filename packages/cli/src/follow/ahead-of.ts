import { planOf, type Asked, type Client, type PlanResult, type RunView } from '@tenon/protocol'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { stepsToName } from './render-run.ts'

/** What the deploy of a component would do: its whole plan, or where its type makes none what somebody is asked about. */
export type Ahead = PlanResult | Asked

export async function aheadOf(client: Client, run: RunView, component: string): Promise<Ahead> {
  const approval = run.steps.find(({ key }) => key === `approval:${component}`)
  if (approval?.asked) return approval.asked
  const step = run.steps.find(({ key }) => key === `plan:${component}`)
  const job = step?.jobId ? await client.call('jobs.get', { params: { id: step.jobId } }) : undefined
  const plan = planOf(job?.result)
  if (plan) return plan
  const next = step ? `it is ${step.status}; tenon runs show ${run.id}` : stepsToName(run)
  throw new CliError(EXIT.notFound, `the run has no plan of ${component}`, { next })
}
