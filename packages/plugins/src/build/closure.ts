import type { ClosureImage } from '@tenon/core'
import { wholeImageName, type RegistryClient } from '@tenon/oci'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { copyImage } from './copy-image.ts'
import type { FoundImage } from './images-in-manifests.ts'
import { EXPRESSION } from './neutralise.ts'
import { openImageSources, type ImageSources, type ResolvedImage } from './image-sources.ts'

export interface ClosureOptions {
  client: RegistryClient
  repository: string
  found: FoundImage[]
  /** What the component itself says it uses. */
  declared: string[]
  sources?: ImageSources
}

/** Every image that was found or declared, pinned to its digest now and copied beside the artifact. */
export async function gatherClosure(
  context: OperationContext,
  options: ClosureOptions,
): Promise<ClosureImage[]> {
  const declared = options.declared.map((image) => ({ image, where: 'the images of the component' }))
  const wanted = knownNow(context, [...options.found, ...declared])
  if (wanted.length === 0) return []
  const sources = options.sources ?? (await openImageSources(context))
  const to = { client: options.client, repository: options.repository }
  const resolved = new Map<string, Promise<ResolvedImage>>()
  const closure: ClosureImage[] = []
  for (const { image, where } of wanted) {
    const name = nameOf(image)
    const known = resolved.get(name) ?? sources.resolve(image, where)
    resolved.set(name, known)
    closure.push({ image, digest: (await known).digest })
  }
  const copied = new Set<string>()
  for (const each of await Promise.all(resolved.values())) {
    if (copied.has(each.digest)) continue
    copied.add(each.digest)
    await copyImage(context, each, to)
  }
  context.log(`the closure has ${closure.length} ${closure.length === 1 ? 'image' : 'images'}`)
  return closure
}

/** An image is mirrored and signed as it is: nothing can be listed in it. */
export function refuseDeclared(images: string[]): void {
  if (images.length === 0) return
  const remedy = 'Move `images` to the component that runs them, such as a chart.'
  throw new PluginError('config_invalid', 'An image cannot carry further images.', remedy)
}

/** In one order, each name once. What only the install can know is said and left to it. */
export function knownNow(context: Pick<OperationContext, 'log'>, found: FoundImage[]): FoundImage[] {
  const byName = new Map<string, FoundImage>()
  for (const each of found) {
    if (each.image.includes(EXPRESSION) || each.image.includes('{{')) {
      context.log(
        `note: the image of ${each.where} is known only in the install; it is no part of the closure`,
      )
    } else if (!byName.has(each.image)) {
      byName.set(each.image, each)
    }
  }
  return [...byName.values()].toSorted((a, b) => (a.image < b.image ? -1 : a.image > b.image ? 1 : 0))
}

/** Two ways of writing one image are resolved once; what is no name is left for the resolving to refuse. */
function nameOf(image: string): string {
  try {
    return wholeImageName(image)
  } catch {
    return image
  }
}
