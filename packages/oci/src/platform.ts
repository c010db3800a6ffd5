import { OciError } from './errors.ts'
import type { Descriptor, OciManifest } from './manifest.ts'

export interface Platform {
  os: string
  architecture: string
  variant?: string
}

/** Reads `os/architecture[/variant]`, as in `linux/arm64`. */
export const parsePlatform = (text: string): Platform => {
  const [, os, architecture, variant] = /^([a-z0-9]+)\/([a-z0-9_]+)(?:\/([a-z0-9_.]+))?$/.exec(text) ?? []
  if (os !== undefined && architecture !== undefined) {
    return { os, architecture, ...(variant === undefined ? {} : { variant }) }
  }
  throw new OciError('NAME_INVALID', `${JSON.stringify(text.slice(0, 80))} is no platform; write linux/amd64`)
}

export const formatPlatform = ({ os, architecture, variant }: Platform): string =>
  [os, architecture, variant].filter((part) => part !== undefined).join('/')

/** Pure: the manifest of an index that runs on the platform, the highest variant that it can run. */
export const selectPlatform = (index: OciManifest, wanted: Platform): Descriptor => {
  const candidates = index.manifests
    .filter(({ platform }) => platform?.os === wanted.os && platform.architecture === wanted.architecture)
    .map((descriptor) => ({ descriptor, variant: variantOf(descriptor.platform ?? wanted) }))
    .filter(({ variant }) => runs(variantOf(wanted), variant))
    .toSorted((a, b) => rank(b.variant) - rank(a.variant))
  const [best] = candidates
  if (best !== undefined) return best.descriptor
  const offered = index.manifests.flatMap(({ platform }) =>
    platform === undefined ? [] : [formatPlatform(platform)],
  )
  throw new OciError(
    'NOT_FOUND',
    `The index has nothing for ${formatPlatform(wanted)}; it offers ${offered.slice(0, 20).join(', ') || 'no platform'}`,
  )
}

const defaultVariants: Record<string, string> = { amd64: 'v1', arm64: 'v8', arm: 'v7' }

const variantOf = ({ architecture, variant }: Platform): string =>
  variant ?? defaultVariants[architecture] ?? ''

/** Processors run what was made for an earlier variant of theirs. */
const runs = (own: string, made: string): boolean =>
  own === made || (rank(own) > 0 && rank(made) > 0 && rank(made) <= rank(own))

const rank = (variant: string): number => Number(/^v(\d{1,3})/.exec(variant)?.[1] ?? 0)
