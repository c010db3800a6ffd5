import type { Json } from '@tenon/core'
import { addressOf, asJson, type KubeObject } from '../kubernetes/objects.ts'
import { PluginError } from '../sdk/errors.ts'
import type { KnownImages } from './images.ts'

const CONTAINERS: readonly string[] = ['containers', 'initContainers', 'ephemeralContainers']
/** Data, not references: a text that looks like an image there is somebody's text. */
const LEFT_ALONE: readonly string[] = ['ConfigMap', 'Secret', 'CustomResourceDefinition']

export interface Closed {
  objects: KubeObject[]
  /** What will run, by digest, from the install's own registry. */
  images: string[]
}

/**
 * Points every image at the install registry, by digest. A container whose image did not come with the artifact is
 * refused with its place; elsewhere (`image` of a custom resource) only what is known is pointed there.
 */
export function closeImages(objects: readonly KubeObject[], known: KnownImages): Closed {
  const images = new Set<string>()
  const outside: string[] = []
  const closed = objects.map((object) => {
    if (LEFT_ALONE.includes(object.kind)) return object
    const walk: Walk = { known, images, outside, object }
    return rewrite(walk, asJson(object), [], false) as unknown as KubeObject
  })
  if (outside.length > 0) throw outsideClosure(outside)
  return { objects: closed, images: [...images] }
}

interface Walk {
  known: KnownImages
  images: Set<string>
  outside: string[]
  object: KubeObject
}

function rewrite(walk: Walk, value: Json, path: readonly (string | number)[], isContainer: boolean): Json {
  if (Array.isArray(value)) {
    const areContainers = CONTAINERS.includes(String(path.at(-1)))
    return value.map((child, index) => rewrite(walk, child, [...path, index], areContainers))
  }
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, child]) => {
    const isImage = typeof child === 'string' && (key === 'image' || isVolumeImage(path, key))
    if (!isImage) return [key, rewrite(walk, child, [...path, key], false)] as const
    return [key, target(walk, child, [...path, key], isContainer)] as const
  })
  return Object.fromEntries(entries)
}

/** `volumes[].image.reference`. */
function isVolumeImage(path: readonly (string | number)[], key: string): boolean {
  return key === 'reference' && path.at(-1) === 'image' && path.at(-3) === 'volumes'
}

function target(walk: Walk, image: string, path: readonly (string | number)[], isContainer: boolean): string {
  const found = walk.known.find(image)
  if (found !== undefined) {
    walk.images.add(found)
    return found
  }
  if (isContainer || path.at(-1) === 'reference') walk.outside.push(placeOf(walk.object, path, image))
  return image
}

function placeOf(object: KubeObject, path: readonly (string | number)[], image: string): string {
  const at = path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${key}`)).join('')
  return `${image} at ${addressOf(object)} ${at.slice(1)}`
}

function outsideClosure(places: readonly string[]): PluginError {
  const [first, ...more] = places
  const others = more.length === 0 ? '' : `, and ${more.length} more: ${more.slice(0, 4).join(', ')}`
  const message = `An image is named that did not come with this build: ${first}${others}.`
  const remedy = 'Add it to `images` of the component, or make it a component of its own, and build again.'
  return new PluginError('image_outside_closure', message, remedy)
}
