import { isImageName } from '@tenon/oci'
import { parseAllDocuments } from 'yaml'
import { PluginError } from '../sdk/errors.ts'

export interface FoundImage {
  /** As it is written. */
  image: string
  /** The file and the place in it. */
  where: string
}

const CONTAINERS = new Set(['containers', 'initContainers', 'ephemeralContainers'])
/** What they hold is data or a schema: an `image` in it names nothing that runs. */
const NOT_WORKLOADS = new Set(['ConfigMap', 'Secret', 'CustomResourceDefinition'])
const MAX_DEPTH = 100

/** Pure: the images that manifests name, in pod specs of any kind and wherever `image` holds what looks like one. */
export function imagesInManifests(text: string, file: string): FoundImage[] {
  const found: FoundImage[] = []
  for (const { name, body } of documents(text, file)) {
    for (const value of readYaml(body, name)) {
      for (const object of objectsOf(value)) found.push(...imagesOf(object, name))
    }
  }
  return found
}

function imagesOf(object: Record<string, unknown>, file: string): FoundImage[] {
  const { kind, metadata } = object as { kind?: unknown; metadata?: { name?: unknown } }
  if (typeof kind === 'string' && NOT_WORKLOADS.has(kind)) return []
  const title = [kind, metadata?.name].filter((part) => typeof part === 'string').join(' ')
  const found: FoundImage[] = []
  const visit = (value: unknown, path: string, isContainer: boolean, depth: number): void => {
    if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return
    if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) visit(item, `${path}[${index}]`, isContainer, depth + 1)
      return
    }
    for (const [key, inner] of Object.entries(value)) {
      const at = path === '' ? key : `${path}.${key}`
      const image = key === 'image' ? imageIn(inner, isContainer) : undefined
      if (image !== undefined) found.push({ image, where: `${file}: ${title}${title && ', '}${at}` })
      visit(inner, at, CONTAINERS.has(key), depth + 1)
    }
  }
  visit(object, '', false, 0)
  return found
}

/** In a container `image` is always one. Elsewhere it has to look like one. */
function imageIn(value: unknown, isContainer: boolean): string | undefined {
  if (typeof value === 'object' && value !== null) return imageOfParts(value as Record<string, unknown>)
  if (typeof value !== 'string' || value.trim() === '') return undefined
  const text = value.trim()
  if (isContainer) return text
  return /[/:@]/.test(text) && isImageName(text) ? text : undefined
}

/** Pure: an image written in parts, as values of charts and some custom resources do. */
export function imageOfParts(parts: Record<string, unknown>, defaultTag?: string): string | undefined {
  const { registry, repository, name, tag, digest, sha256, sha } = parts
  const base = text(repository) ?? text(name)
  if (base === undefined) return undefined
  const pin = text(digest) ?? hexDigest(sha256) ?? hexDigest(sha)
  const version = text(tag) ?? (pin === undefined ? defaultTag : undefined)
  if (pin === undefined && version === undefined) return undefined
  const host = text(registry)
  const whole = host === undefined || base.startsWith(`${host}/`) ? base : `${host}/${base}`
  const written = `${whole}${version === undefined ? '' : `:${version}`}${pin === undefined ? '' : `@${pin}`}`
  return isImageName(written) ? written : undefined
}

function text(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined
}

function hexDigest(value: unknown): string | undefined {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value) ? `sha256:${value}` : undefined
}

/** Helm says above each document which template it comes from. */
function documents(text: string, file: string): { name: string; body: string }[] {
  if (!/^# Source: /m.test(text)) return [{ name: file, body: text }]
  return text.split(/^---\s*$/m).map((body) => ({ name: /^# Source: (.+)$/m.exec(body)?.[1] ?? file, body }))
}

function readYaml(body: string, file: string): unknown[] {
  const parsed = parseAllDocuments(body, { uniqueKeys: false, logLevel: 'silent', merge: true })
  if (!Array.isArray(parsed)) return []
  return parsed.map((document) => {
    const [error] = document.errors
    if (error) {
      const message = `${file} is not YAML: ${error.message.split('\n')[0] ?? ''}`
      throw new PluginError('artifact_invalid', message, 'Correct the file and build again.', error)
    }
    return document.toJS({ maxAliasCount: 1000 }) as unknown
  })
}

/** A `List` holds the objects in its items. */
function objectsOf(value: unknown): Record<string, unknown>[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  const { kind, items } = value as { kind?: unknown; items?: unknown }
  if (typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items))
    return items.flatMap(objectsOf)
  return [value as Record<string, unknown>]
}
