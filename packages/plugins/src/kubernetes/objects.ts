import type { Json } from '@tenon/core'
import { json } from '@tenon/protocol'
import { parseAllDocuments, type ParseOptions, type DocumentOptions, type SchemaOptions } from 'yaml'
import { z } from 'zod'
import { PluginError } from '../sdk/errors.ts'

const text = z.record(z.string(), z.string()).nullish()

/** As much of a Kubernetes object as everything here needs; the rest is kept as it is. */
export const kubeObject = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string().default(''),
    namespace: z.string().exactOptional(),
    labels: text,
    annotations: text,
    generation: z.number().exactOptional(),
    uid: z.string().exactOptional(),
    resourceVersion: z.string().exactOptional(),
    ownerReferences: z.array(z.looseObject({ uid: z.string(), kind: z.string() })).exactOptional(),
    deletionTimestamp: z.string().exactOptional(),
  }),
})
export type KubeObject = z.infer<typeof kubeObject> & { [key: string]: unknown }

const objectList = z.looseObject({ kind: z.string().endsWith('List'), items: z.array(z.unknown()) })

const MAX_OBJECTS = 5000
/** Kubernetes reads YAML 1.1, but takes neither times nor base 60 out of plain text. */
const YAML: ParseOptions & DocumentOptions & SchemaOptions = {
  version: '1.1',
  uniqueKeys: false,
  logLevel: 'error',
  customTags: (tags) =>
    tags.filter((tag) => {
      if (typeof tag === 'string') return true
      return tag.tag !== 'tag:yaml.org,2002:timestamp' && tag.format !== 'TIME'
    }),
}

/** Every object of a stream of YAML or JSON documents, lists taken apart. */
export function parseObjects(content: string, where: string): KubeObject[] {
  const objects: KubeObject[] = []
  for (const document of parseAllDocuments(content, YAML)) {
    const [problem] = document.errors
    if (problem) throw notObjects(where, problem.message)
    collect(document.toJS({ maxAliasCount: 1000 }) as unknown, where, objects)
    if (objects.length > MAX_OBJECTS) throw notObjects(where, `there are more than ${MAX_OBJECTS} objects`)
  }
  return objects
}

function collect(value: unknown, where: string, into: KubeObject[]): void {
  if (value === null || value === undefined) return
  const list = objectList.safeParse(value)
  if (list.success) {
    for (const item of list.data.items) collect(item, where, into)
    return
  }
  const parsed = kubeObject.safeParse(value)
  if (!parsed.success || !json.safeParse(value).success) {
    const fields = parsed.success ? ['it is no JSON'] : parsed.error.issues.map(({ path }) => path.join('.'))
    throw notObjects(where, `one document is no Kubernetes object (${fields.slice(0, 3).join(', ')})`)
  }
  into.push(value as KubeObject)
}

function notObjects(where: string, why: string): PluginError {
  return new PluginError(
    'artifact_invalid',
    `${where} cannot be read: ${why}.`,
    'Correct it and build again.',
  )
}

export function asJson(object: KubeObject): { [key: string]: Json } {
  return object as unknown as { [key: string]: Json }
}

/** One text for one object, whatever version of its group it is written in. */
export function keyOf(object: KubeObject): string {
  const group = object.apiVersion.includes('/') ? object.apiVersion.split('/')[0] : ''
  return [group, object.kind, object.metadata.namespace ?? '', object.metadata.name].join('/')
}

/** As people say it: `Deployment web/api`. */
export function addressOf({ kind, metadata }: KubeObject): string {
  const place = metadata.namespace === undefined ? '' : `${metadata.namespace}/`
  return `${kind} ${place}${metadata.name}`
}

export function listOf(objects: readonly KubeObject[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects })
}
