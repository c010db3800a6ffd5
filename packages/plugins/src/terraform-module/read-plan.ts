import type { Json } from '@tenon/core'
import { json } from '@tenon/protocol'
import { z } from 'zod'
import { difference, hideMarked, type PlanChange } from '../deploy/plan.ts'

const change = z.looseObject({
  actions: z.array(z.string()),
  before: json.nullish(),
  after: json.nullish(),
  after_unknown: json.nullish(),
  before_sensitive: json.nullish(),
  after_sensitive: json.nullish(),
})
const shownPlan = z.looseObject({
  resource_changes: z
    .array(z.looseObject({ address: z.string(), type: z.string(), name: z.string(), change }))
    .default([]),
  output_changes: z.record(z.string(), change).default({}),
})

export interface ReadPlan {
  changes: PlanChange[]
  /** Every resource with all its values, for policies. */
  resources: Json[]
}

/** `terraform show -json` of a plan; what it marks as sensitive is hidden. */
export function readPlan(text: string): ReadPlan {
  const plan = shownPlan.parse(JSON.parse(text))
  const resources: Json[] = []
  const changes: PlanChange[] = []
  for (const resource of plan.resource_changes) {
    const { before, after } = shownValues(resource.change)
    const action = actionOf(resource.change.actions)
    const { address, type, name } = resource
    resources.push({ address, type, name, action: action ?? 'no-op', before, after })
    if (action !== undefined) changes.push(changeOf(action, address, before, after))
  }
  for (const [name, output] of Object.entries(plan.output_changes)) {
    const action = actionOf(output.actions)
    if (action === undefined) continue
    const { before, after } = shownValues(output)
    changes.push(changeOf(action, `output.${name}`, before, after))
  }
  return { changes, resources }
}

function changeOf(action: PlanChange['action'], address: string, before: Json, after: Json): PlanChange {
  if (action === 'create' || action === 'read') return { action, address, after }
  if (action === 'delete') return { action, address, before }
  return { action, address, ...difference(before, after) }
}

function shownValues(given: z.infer<typeof change>): { before: Json; after: Json } {
  const before = hideMarked(given.before ?? null, given.before_sensitive ?? undefined)
  const after = hideMarked(given.after ?? null, given.after_sensitive ?? undefined)
  return { before, after: withUnknown(after, given.after_unknown ?? null) }
}

/** What is known only after the change says so, rather than being absent. */
function withUnknown(value: Json, unknown: Json): Json {
  if (unknown === true) return '(known after apply)'
  if (typeof unknown !== 'object' || unknown === null || Array.isArray(unknown)) return value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const marked = Object.entries(unknown).filter(([, mark]) => mark !== false)
  const added = marked.map(([key, mark]) => [key, withUnknown(value[key] ?? null, mark)] as const)
  return { ...value, ...Object.fromEntries(added) }
}

/** Undefined for what does not change. */
function actionOf(actions: readonly string[]): PlanChange['action'] | undefined {
  if (actions.includes('create') && actions.includes('delete')) return 'replace'
  const [action] = actions
  if (action === 'create' || action === 'update' || action === 'delete' || action === 'read') return action
  return action === 'forget' ? 'delete' : undefined
}
