import type { ApprovalOption, StepKind } from './plan.ts'
import type { StepStatus } from './states.ts'

export interface GateStep {
  key: string
  kind: StepKind
  dependsOn: readonly string[]
  status: StepStatus
}

/** What may stand before a deploy and must have ended well for it: what is planned, what somebody says, what is checked. */
const GUARDS: ReadonlySet<StepKind> = new Set<StepKind>(['plan', 'approval', 'action'])

/** The guards of a deploy, wherever they stand in the chain before it. */
export function guardsOf<S extends GateStep>(step: GateStep, steps: readonly S[]): S[] {
  const byKey = new Map(steps.map((each) => [each.key, each]))
  const found = new Set<S>()
  const open = [...step.dependsOn]
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    const before = byKey.get(key)
    if (!before || !GUARDS.has(before.kind) || found.has(before)) continue
    found.add(before)
    open.push(...before.dependsOn)
  }
  return steps.filter((each) => found.has(each))
}

/** The deploy that would run unguarded if this step were taken for done without having been done. */
export function deployBehind(step: GateStep, steps: readonly GateStep[]): string | undefined {
  if (!GUARDS.has(step.kind)) return undefined
  const waiting = steps.filter(
    ({ kind, status }) => kind === 'deploy' && status !== 'succeeded' && status !== 'skipped',
  )
  return waiting.find((deploy) => guardsOf(deploy, steps).some(({ key }) => key === step.key))?.key
}

/**
 * The steps that are done again with one: a plan is good for one deploy, so a deploy that is tried again needs a new
 * plan, a new approval and its actions; and whoever refused it is asked anew.
 */
export function repeatedWith<S extends GateStep>(step: S, steps: readonly S[]): S[] {
  if (step.kind !== 'deploy' && step.kind !== 'approval') return [step]
  const guards = guardsOf(step, steps)
  // One that is at work, or waits for somebody, still speaks for this deploy.
  const isAtWork = guards.some(({ status }) => status === 'active')
  const again = guards.filter(({ status }) =>
    isAtWork ? status === 'failed' || status === 'canceled' : status !== 'pending',
  )
  return [...again, step]
}

export interface Gate {
  deploy: GateStep
  steps: readonly GateStep[]
  /** Of what the plan was made, and of what the deploy would be; undefined where there is no plan. */
  plannedOf: string | undefined
  /** What somebody approved without a plan. */
  approvedOf: string | undefined
  madeOf: string
  approval: ApprovalOption
}

/**
 * `wait`: something before the deploy is done again, or did not end well. `repeat`: it does not speak for the deploy,
 * or for something else than what it would apply now. `ask`: the install wants to be asked since the run was decided.
 */
export type GateVerdict = { go: true } | { go: false; do: 'wait' | 'repeat' | 'ask'; why: string }

/** Whether a deploy whose turn has come may start. The one place where this is decided. */
export function passGate({ deploy, steps, plannedOf, approvedOf, madeOf, approval }: Gate): GateVerdict {
  const guards = guardsOf(deploy, steps)
  const open = guards.find(({ status }) => status !== 'succeeded')
  if (open) {
    const isLeftOut = guards.some(({ status }) => status === 'skipped')
    return { go: false, do: isLeftOut ? 'repeat' : 'wait', why: `${open.key} is ${open.status}` }
  }
  const plan = guards.find(({ kind }) => kind === 'plan')
  const approved = guards.find(({ kind }) => kind === 'approval')
  if (plan && plannedOf === undefined) return { go: false, do: 'repeat', why: `${plan.key} made no plan` }
  if (plan && plannedOf !== madeOf)
    return { go: false, do: 'repeat', why: 'inputs, configuration or plugin changed after the plan was made' }
  if (!plan && approved && approvedOf !== madeOf)
    return { go: false, do: 'repeat', why: 'inputs, configuration or plugin changed after it was approved' }
  if (approval === 'prompt' && !approved)
    return { go: false, do: 'ask', why: 'the install asks for approval since this run was decided' }
  return { go: true }
}
