import type { Json } from '@tenon/core'
import { asJson, type KubeObject } from './objects.ts'

/**
 * Says what is the default anyway, the protocol of a port: it is part of a list's key, and API servers up to 1.20
 * refuse a server-side apply without it.
 */
export function withProtocols(objects: readonly KubeObject[]): KubeObject[] {
  return objects.map((object) => filled(asJson(object), false) as unknown as KubeObject)
}

function filled(value: Json, isPort: boolean): Json {
  if (Array.isArray(value)) return value.map((child) => filled(child, isPort))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, child]) => [key, filled(child, key === 'ports')] as const)
  const isOpen = 'containerPort' in value || 'port' in value
  const isLacking = isPort && isOpen && value['protocol'] === undefined
  return Object.fromEntries(isLacking ? [...entries, ['protocol', 'TCP'] as const] : entries)
}
