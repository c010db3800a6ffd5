import { type Json } from '@tenon/core'
import { planResult, type PlanResult } from '@tenon/protocol'
import type { OperationResult } from '../sdk/plugin.ts'
import { MASKED, type Masker } from './masking.ts'

export type PlanChange = PlanResult['changes'][number]

const MAX_CHANGES = 200
/** A report has room for 262,144 bytes in all. */
const MAX_VALUES_BYTES = 98_304
const MAX_VALUE_BYTES = 16_384

export interface PlanFacts {
  digest: string | null
  hasChanges: boolean
  healthy: boolean | null
  changes: PlanChange[]
  findings: PlanResult['findings']
}

/** Bounded, and with every secret hidden. */
export function planOf(facts: PlanFacts, masker: Masker): PlanResult {
  let room = MAX_VALUES_BYTES
  const fits = (value: Json | undefined) => {
    const size = value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value))
    if (size > MAX_VALUE_BYTES || size > room) return false
    room -= size
    return true
  }
  const changes = facts.changes.slice(0, MAX_CHANGES).map((change): PlanChange => {
    const { action, address } = change
    const shown: PlanChange = { action, address: masker.text(address) }
    if (change.before !== undefined && fits(change.before)) shown.before = masker.json(change.before)
    if (change.after !== undefined && fits(change.after)) shown.after = masker.json(change.after)
    return shown
  })
  return planResult.parse({
    digest: facts.digest,
    hasChanges: facts.hasChanges,
    healthy: facts.healthy,
    counts: countChanges(facts.changes),
    changes,
    isCut: facts.changes.length > MAX_CHANGES,
    findings: facts.findings.map((finding) => ({ ...finding, message: masker.text(finding.message) })),
  })
}

export function countChanges(changes: readonly PlanChange[]): PlanResult['counts'] {
  const counts = { create: 0, update: 0, delete: 0 }
  for (const { action, address } of changes) {
    if (address.startsWith('output.')) continue
    if (action === 'replace') {
      counts.create += 1
      counts.delete += 1
    } else if (action !== 'read') counts[action] += 1
  }
  return counts
}

/** A policy that says no makes a plan that did not go well; trying again as it is would end the same. */
export function planAnswer(plan: PlanResult, note = ''): OperationResult {
  const denied = plan.findings.filter(({ outcome }) => outcome === 'deny')
  const said = note === '' ? '' : ` ${note}`
  if (denied.length > 0) {
    const first = denied.map(({ policy, message }) => `${policy}: ${message}`).slice(0, 5)
    const message = `A policy forbids this change. ${first.join('; ')}`
    return { ok: false, message, data: { code: 'policy_denied', final: true, plan: plan as unknown as Json } }
  }
  const message = plan.hasChanges ? `${countsInWords(plan.counts)}.${said}` : `Nothing changes.${said}`
  return { ok: true, message, data: { plan: plan as unknown as Json } }
}

export function countsInWords({ create, update, delete: gone }: PlanResult['counts']): string {
  const parts = [`${create} to create`, `${update} to update`, `${gone} to delete`]
  return parts.filter((part) => !part.startsWith('0 ')).join(', ') || 'Only outputs change'
}

/** Only what differs between two values, at any depth; undefined when nothing does. */
export function difference(before: Json, after: Json): { before: Json; after: Json } | undefined {
  if (JSON.stringify(before) === JSON.stringify(after)) return undefined
  if (!isObject(before) || !isObject(after)) return { before, after }
  const was: { [key: string]: Json } = {}
  const will: { [key: string]: Json } = {}
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [left, right] = [before[key], after[key]]
    if (left === undefined && right !== undefined) will[key] = right
    else if (right === undefined && left !== undefined) was[key] = left
    else if (left !== undefined && right !== undefined) {
      const inner = difference(left, right)
      if (inner === undefined) continue
      was[key] = inner.before
      will[key] = inner.after
    }
  }
  if (Object.keys(was).length + Object.keys(will).length === 0) return undefined
  return { before: was, after: will }
}

/** Hides what `marks` marks with true, at the same place; both come from the tool that made the plan. */
export function hideMarked(value: Json, marks: Json | undefined): Json {
  if (marks === true) return value === null ? null : MASKED
  if (Array.isArray(value)) {
    return value.map((child, index) => hideMarked(child, Array.isArray(marks) ? marks[index] : undefined))
  }
  if (!isObject(value) || !isObject(marks)) return value
  const entries = Object.entries(value).map(([key, child]) => [key, hideMarked(child, marks[key])] as const)
  return Object.fromEntries(entries)
}

function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
