import type { Json } from '@tenon/core'

/** Of a field that has been checked: its text, or nothing. */
export function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}
