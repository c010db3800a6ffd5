import type { RunView } from '@tenon/protocol'
import { plain } from '../output/clean.ts'
import { paintStatus, type Paint } from '../output/paint.ts'
import { clipTo, padTo, textWidth } from '../output/width.ts'
import { between } from '../output/words.ts'

type Step = RunView['steps'][number]

const SIGNS: ReadonlyMap<Step['status'], string> = new Map([
  ['pending', '○'],
  ['active', '●'],
  ['succeeded', '✓'],
  ['failed', '✗'],
  ['canceled', '-'],
  ['skipped', '-'],
])
const DEEPEST = 5

export interface Drawing {
  paint: Paint
  now: number
  /** Undefined: nothing is cut. */
  width: number | undefined
}

/** A run as a head line, its steps indented by what they depend on, and what it waits for. */
export function renderRun(run: RunView, drawing: Drawing): string[] {
  const { paint, now } = drawing
  const title = `${run.kind} ${plain(run.install)}`
  const took = `${between(run.createdAt, run.finishedAt, now)}  ${run.id}`
  const room =
    drawing.width === undefined ? took.length : drawing.width - textWidth(title) - run.status.length - 4
  const head = `${paint.bold(title)}  ${paintStatus(paint, run.status)}  ${paint.dim(clipTo(took, room))}`
  const depths = stepDepths(run.steps)
  const labels = run.steps.map((step) => '  '.repeat(depths.get(step.key) ?? 0) + plain(step.key))
  const width = Math.max(0, ...labels.map(textWidth))
  const steps = run.steps.map((step, i) => renderStep(step, padTo(labels[i]!, width), drawing))
  const waits = run.waiting.flatMap((w) => [
    ...folded('  ', `waiting for ${between(w.since, null, now)}: ${plain(w.message)}`, drawing).map(
      paint.yellow,
    ),
    ...(w.remedy === null ? [] : folded('    ', plain(w.remedy), drawing).map(paint.dim)),
  ])
  const nothing =
    steps.length === 0 && run.finishedAt !== null ? [paint.dim('  there was nothing to do')] : []
  return [head, ...steps, ...nothing, ...waits]
}

/** Which steps a run has, for somebody who named another. */
export function stepsToName({ steps }: RunView): string {
  return steps.length === 0 ? 'it has no steps' : `its steps: ${steps.map(({ key }) => key).join(', ')}`
}

function renderStep(step: Step, label: string, drawing: Drawing): string {
  const { paint, now } = drawing
  const took = between(step.startedAt, step.finishedAt, now).padStart(6)
  const start = `  ${SIGNS.get(step.status) ?? '?'} ${label}  ${step.status.padEnd(9)} ${took}`
  const words = stepWords(step)
  const shown = drawing.width === undefined ? start : clipTo(start, drawing.width)
  const room = drawing.width === undefined ? words.length : drawing.width - textWidth(shown) - 2
  const tail = room > 3 && words !== '' ? `  ${paint.dim(clipTo(words, room))}` : ''
  return paintStatus(paint, step.status === 'active' ? 'running' : step.status, shown) + tail
}

function stepWords(step: Step): string {
  if (step.plan && step.status === 'succeeded') return planWords(step.plan)
  if (step.askedBy !== null) {
    const asked = `asked for by ${plain(step.askedBy.name)}`
    return step.message === '' ? asked : `${plain(step.message)}, ${asked}`
  }
  if (step.status !== 'active' || step.progress === null) return plain(step.message)
  const { fraction, message } = step.progress
  return `${fraction === null ? '' : `${Math.round(fraction * 100)} % `}${plain(message)}`
}

function planWords({ hasChanges, counts, findings }: NonNullable<Step['plan']>): string {
  const count = findings.length === 1 ? '1 finding' : `${findings.length} findings`
  const warned = findings.length === 0 ? '' : `, ${count} of policies`
  if (!hasChanges) return `nothing changes${warned}`
  return `+${counts.create} ~${counts.update} -${counts.delete}${warned}`
}

/** What somebody should read to its end goes on in the next line; a command stays in one, to be copied. */
function folded(indent: string, text: string, { width }: Drawing): string[] {
  if (width === undefined) return [indent + text]
  const lines: string[] = []
  for (const word of text.match(/`[^`]*`\S*|\S+/g) ?? []) {
    const longer = `${lines.at(-1)} ${word}`
    if (lines.length > 0 && textWidth(longer) <= width) lines[lines.length - 1] = longer
    else lines.push(indent + word)
  }
  return lines.map((line) => clipTo(line, width))
}

/** How far each step is from the start of the run, by the longest way; a cycle, which cannot be, ends at the cap. */
function stepDepths(steps: readonly Step[]): Map<string, number> {
  const depths = new Map(steps.map((step) => [step.key, 0]))
  for (let round = 0; round < DEEPEST; round++) {
    for (const step of steps) {
      const above = Math.max(-1, ...step.dependsOn.map((key) => depths.get(key) ?? -1))
      depths.set(step.key, Math.min(DEEPEST, above + 1))
    }
  }
  return depths
}

/** For a stream of lines instead of a terminal: what is new since the last event. */
export function changedSteps(before: RunView | undefined, run: RunView): string[] {
  const known = new Map(before?.steps.map((step) => [step.key, step.status]))
  const lines = run.steps
    .filter((step) => step.status !== (known.get(step.key) ?? 'pending'))
    .map((step) => `${plain(step.key)}: ${step.status}${step.message ? ` (${plain(step.message)})` : ''}`)
  const waits = new Set(before?.waiting.map((w) => w.code + w.message))
  for (const w of run.waiting) {
    if (!LASTING.has(w.code) || waits.has(w.code + w.message)) continue
    lines.push(`waiting: ${plain(w.message)}`)
    if (w.remedy !== null && !PASSING.has(w.code)) lines.push(`  ${plain(w.remedy)}`)
  }
  return lines
}

/** The waits that somebody may have to do something about. */
const LASTING = new Set([
  'no_agent',
  'agent_away',
  'held',
  'lost',
  'run_ahead',
  'no_free_slot',
  'agent_enrolling',
  'approval',
  'retrying',
])

/** Of these, the ones that end without anybody. */
const PASSING = new Set(['held', 'run_ahead', 'no_free_slot', 'retrying'])
