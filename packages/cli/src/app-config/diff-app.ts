import type { App, Json } from '@tenon/core'

/** What is other in one part of an app: all of it, or these fields. */
export interface Change {
  change: 'added' | 'changed' | 'removed'
  /** Such as `component web` or `file sandbox.toml`. */
  what: string
  fields: { path: string; before: Json | undefined; after: Json | undefined }[]
}

const LISTS = [
  ['component', 'components'],
  ['input', 'inputs'],
  ['input group', 'inputGroups'],
  ['secret', 'secrets'],
  ['policy', 'policies'],
  ['action', 'actions'],
] as const

/** Everything that differs between two versions of an app. */
export function diffApps(before: App, after: App): Change[] {
  const own = (app: App): Json => ({ displayName: app.displayName, description: app.description })
  return [
    ...changeOf('app', own(before), own(after)),
    ...LISTS.flatMap(([what, list]) => diffNamed(what, byName(before[list]), byName(after[list]))),
    ...diffNamed(
      'file',
      new Map(Object.entries(before.carried ?? {})),
      new Map(Object.entries(after.carried ?? {})),
    ),
  ]
}

export function describeChanges(changes: readonly Change[]): string[] {
  return changes.flatMap(({ change, what, fields }) => [
    `${SIGNS[change]} ${what}`,
    ...fields.map(({ path, before, after }) => `    ${path}: ${short(before)} → ${short(after)}`),
  ])
}

const SIGNS = { added: '+', changed: '~', removed: '-' } as const

function byName(list: readonly { name: string }[] | undefined): Map<string, Json> {
  return new Map((list ?? []).map((item) => [item.name, item as unknown as Json]))
}

function diffNamed(what: string, before: Map<string, Json>, after: Map<string, Json>): Change[] {
  const names = [...new Set([...before.keys(), ...after.keys()])].toSorted()
  return names.flatMap((name): Change[] => {
    const [old, now] = [before.get(name), after.get(name)]
    if (old === undefined) return [{ change: 'added', what: `${what} ${name}`, fields: [] }]
    if (now === undefined) return [{ change: 'removed', what: `${what} ${name}`, fields: [] }]
    return changeOf(`${what} ${name}`, old, now)
  })
}

function changeOf(what: string, before: Json, after: Json): Change[] {
  const fields = [...differences(before, after, [])]
  return fields.length > 0 ? [{ change: 'changed', what, fields }] : []
}

function* differences(
  before: Json | undefined,
  after: Json | undefined,
  path: string[],
): Generator<Change['fields'][number]> {
  if (isTable(before) && isTable(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)])
    for (const key of keys) yield* differences(own(before, key), own(after, key), [...path, key])
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    for (const [i, item] of before.entries()) yield* differences(item, after[i], [...path, String(i)])
  } else if (JSON.stringify(before) !== JSON.stringify(after)) yield { path: path.join('.'), before, after }
}

function isTable(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function own(table: { [key: string]: Json }, key: string): Json | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined
}

function short(value: Json | undefined): string {
  if (value === undefined) return '(none)'
  const text = JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 59)}…` : text
}
