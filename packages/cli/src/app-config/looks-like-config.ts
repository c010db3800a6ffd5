import type { Json } from '@tenon/core'
import { COMPONENT_TYPES } from './schemas/components.ts'
import { FILE_KINDS } from './schemas/kinds.ts'

const COMPONENT_FIELDS = new Set(Object.values(COMPONENT_TYPES).flatMap(({ shape }) => Object.keys(shape)))

/** Whether a TOML file deep in a folder is config: it has a name, and at least half of its fields are known ones. */
export function looksLikeConfig(kind: string, value: { [key: string]: Json }): boolean {
  const shape = FILE_KINDS.get(kind)?.schema.shape
  const known = kind === 'component' ? COMPONENT_FIELDS : new Set(Object.keys(shape ?? {}))
  const keys = Object.keys(value)
  return typeof value['name'] === 'string' && keys.filter((key) => known.has(key)).length * 2 >= keys.length
}
