import type { Asked, PlanView } from '@tenon/protocol'
import type { Ahead } from '../follow/ahead-of.ts'
import { plain } from './clean.ts'
import type { Paint } from './paint.ts'

const SIGNS: ReadonlyMap<PlanView['changes'][number]['action'], string> = new Map([
  ['create', '+'],
  ['update', '~'],
  ['replace', '±'],
  ['delete', '-'],
])
const LONGEST_VALUE = 400

export function renderAhead(ahead: Ahead, paint: Paint): string[] {
  return 'artifact' in ahead ? renderAsked(ahead) : renderPlan(ahead, paint)
}

/** A plan as lines: each change with what differs, then what policies say, then the sum. */
function renderPlan(plan: PlanView, paint: Paint): string[] {
  const { create, update, delete: gone } = plan.counts
  const lines = plan.changes.flatMap(({ action, address, before, after }) => {
    const color = action === 'create' ? paint.green : action === 'delete' ? paint.red : paint.yellow
    return [
      color(`${SIGNS.get(action) ?? '?'} ${plain(address)}`),
      ...(before === undefined ? [] : [paint.dim(`    - ${valueText(before)}`)]),
      ...(after === undefined ? [] : [paint.dim(`    + ${valueText(after)}`)]),
    ]
  })
  const findings = plan.findings.map(({ policy, outcome, message }) =>
    (outcome === 'deny' ? paint.red : paint.yellow)(`${outcome}: ${plain(message)} (${plain(policy)})`),
  )
  const sum = plan.hasChanges
    ? `${create} to create, ${update} to change, ${gone} to delete`
    : 'nothing changes'
  return [...lines, ...(plan.isCut ? [paint.dim('  … and more')] : []), ...findings, paint.bold(sum)]
}

/** What would be deployed, where no plan says what that changes. */
function renderAsked({ artifact, replaces, configChanges }: Asked): string[] {
  const config = configChanges ? 'changed since the last deploy' : 'as it was'
  const before = replaces === artifact.digest ? 'the same artifact' : replaces
  return [
    'its type makes no plan; what would be deployed:',
    `  artifact       ${plain(artifact.repository)}@${artifact.digest}`,
    `  instead of     ${before ?? 'nothing, it is not there yet'}`,
    ...(before === null ? [] : [`  configuration  ${config}`]),
  ]
}

function valueText(value: unknown): string {
  const text = plain(JSON.stringify(value))
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`
}
