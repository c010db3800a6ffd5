/** One line of the table. Only `value` against `goal` is judged; the two sides are there to be read. */
export interface Measure {
  name: string
  measured: string
  baseline: string
  /** What is compared with the goal. */
  value: number
  unit: string
  goal: { most: number } | { least: number } | undefined
  note: string
}

export type Judged = Measure & { verdict: 'ok' | 'missed' | '' }

export function judge(measure: Measure): Judged {
  const { goal, value } = measure
  if (!goal) return { ...measure, verdict: '' }
  const reached = 'most' in goal ? value <= goal.most : value >= goal.least
  return { ...measure, verdict: reached ? 'ok' : 'missed' }
}

export function table(measures: Judged[]): string {
  const rows = [
    ['what', 'measured', 'baseline in the same run', 'result', 'goal', ''],
    ...measures.map((m) => [
      m.name,
      m.measured,
      m.baseline,
      `${round(m.value)}${m.unit}`,
      goalText(m),
      m.verdict,
    ]),
  ]
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  const notes = measures.filter((m) => m.note !== '').map((m) => `- ${m.name}: ${m.note}`)
  return [...lines, '', ...notes].join('\n')
}

function goalText({ goal, unit }: Measure): string {
  if (!goal) return ''
  return 'most' in goal ? `≤ ${goal.most}${unit}` : `≥ ${goal.least}${unit}`
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

export function round(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2)
}
