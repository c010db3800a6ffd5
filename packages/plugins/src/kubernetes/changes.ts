import type { Json } from '@tenon/core'
import { MASKED } from '../deploy/masking.ts'
import { difference, type PlanChange } from '../deploy/plan.ts'
import { addressOf, asJson, keyOf, type KubeObject } from './objects.ts'

/** What turns the objects before into those after, in the order of those after; what goes comes last. */
export function changesBetween(before: readonly KubeObject[], after: readonly KubeObject[]): PlanChange[] {
  const was = new Map(before.map((object) => [keyOf(object), object]))
  const will = new Set(after.map(keyOf))
  const changes: PlanChange[] = []
  for (const object of after) {
    const old = was.get(keyOf(object))
    if (old === undefined) {
      changes.push({ action: 'create', address: addressOf(object), after: shown(object) })
      continue
    }
    const change = differs(old, object)
    if (change) changes.push({ action: 'update', address: addressOf(object), ...change })
  }
  for (const object of before) {
    if (!will.has(keyOf(object))) changes.push({ action: 'delete', address: addressOf(object) })
  }
  return changes
}

/** Compared as they are, shown without what is secret. */
function differs(before: KubeObject, after: KubeObject): { before: Json; after: Json } | undefined {
  const plain = difference(bare(before), bare(after))
  if (plain === undefined || before.kind !== 'Secret') return plain
  return difference(shown(before), shown(after)) ?? { before: { data: MASKED }, after: { data: MASKED } }
}

/** Without what the cluster itself writes. */
function bare(object: KubeObject): Json {
  const {
    status: _,
    metadata,
    ...rest
  } = asJson(object) as { metadata: { [key: string]: Json }; status?: Json }
  const { managedFields, uid, resourceVersion, generation, creationTimestamp, selfLink, ...kept } = metadata
  void [managedFields, uid, resourceVersion, generation, creationTimestamp, selfLink]
  return sorted({ ...rest, metadata: kept })
}

function shown(object: KubeObject): Json {
  const value = bare(object) as { [key: string]: Json }
  if (object.kind !== 'Secret') return value
  const hidden = ['data', 'stringData'].flatMap((key) => {
    const part = value[key]
    if (typeof part !== 'object' || part === null) return []
    return [[key, Object.fromEntries(Object.keys(part).map((name) => [name, MASKED]))] as const]
  })
  return { ...value, ...Object.fromEntries(hidden) }
}

/** Keys in one order: two writers of the same object need not agree on it. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const keys = Object.keys(value).toSorted()
  return Object.fromEntries(keys.map((key) => [key, sorted(value[key] ?? null)]))
}
