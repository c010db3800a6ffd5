import type { PlanResult } from '@tenon/protocol'
import { plain } from './clean.ts'
import type { Paint } from './paint.ts'

const SIGNS: Record<PlanResult['changes'][number]['action'], string> = {
  create: '+',
  update: '~',
  replace: '±',
  delete: '-',
  read: '?',
}
const LONGEST_VALUE = 400

/** A plan as lines: each change with what differs, then what policies say, then the sum. */
export function renderPlan(plan: PlanResult, paint: Paint): string[] {
  const { create, update, delete: gone } = plan.counts
  const lines = plan.changes.flatMap(({ action, address, before, after }) => {
    const color = action === 'create' ? paint.green : action === 'delete' ? paint.red : paint.yellow
    return [
      color(`${SIGNS[action]} ${plain(address)}`),
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

function valueText(value: unknown): string {
  const text = plain(JSON.stringify(value))
  return text.length <= LONGEST_VALUE ? text : `${text.slice(0, LONGEST_VALUE)}…`
}
