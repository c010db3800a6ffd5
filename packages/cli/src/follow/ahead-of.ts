import { planView, type Asked, type Client, type PlanView, type RunView } from '@tenon/protocol'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { stepsToName } from './render-run.ts'

/** What the deploy of a component would do: its whole plan, or where its type makes none what somebody is asked about. */
export type Ahead = PlanView | Asked

export async function aheadOf(client: Client, run: RunView, component: string): Promise<Ahead> {
  const approval = run.steps.find(({ key }) => key === `approval:${component}`)
  if (approval?.asked) return approval.asked
  const planning = run.steps.find(({ key }) => key === `plan:${component}`)
  const job = planning?.jobId ? await client.call('jobs.get', { params: { id: planning.jobId } }) : undefined
  const plan = planView.safeParse(job?.result['plan']).data
  if (plan) return plan
  const step = planning ?? approval
  const next = step ? `${step.key} is ${step.status}; tenon runs show ${run.id}` : stepsToName(run)
  throw new CliError(EXIT.notFound, `there is no plan of ${component} in this run`, { next })
}
