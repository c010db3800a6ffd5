import { OciError } from './errors.ts'
import { isDigest } from './reference.ts'
import type { Digest } from './reference.ts'

export const mediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerList: 'application/vnd.docker.distribution.manifest.list.v2+json',
  empty: 'application/vnd.oci.empty.v1+json',
  layerTarGz: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const

/** Layers that their licence keeps with whoever made them: a registry need not hold them. */
const nondistributable =
  /^application\/vnd\.(?:oci\.image\.layer\.nondistributable\.v1\.tar(?:\+gzip|\+zstd)?|docker\.image\.rootfs\.foreign\.diff\.tar(?:\.gzip)?)$/

export const MAX_MANIFEST_BYTES = 4 * 1024 * 1024

export interface Descriptor {
  mediaType: string
  digest: Digest
  size: number
  artifactType?: string
  annotations?: Record<string, string>
  platform?: { os: string; architecture: string; variant?: string }
  /** Where else a layer can be had; read of layers only. */
  urls?: string[]
}

/** An image manifest or an index, read and checked; an image has `config` and `layers`, an index `manifests`. */
export interface OciManifest {
  mediaType: string
  artifactType?: string
  config?: Descriptor
  layers: Descriptor[]
  manifests: Descriptor[]
  subject?: Descriptor
  annotations?: Record<string, string>
}

const imageTypes: readonly string[] = [mediaTypes.manifest, mediaTypes.dockerManifest]
const indexTypes: readonly string[] = [mediaTypes.index, mediaTypes.dockerList]

export const manifestMediaTypes: readonly string[] = [...imageTypes, ...indexTypes]

export const isManifestMediaType = (value: string): boolean => manifestMediaTypes.includes(value)

export const isIndexMediaType = (value: string): boolean => indexTypes.includes(value)

/** How a manifest shows among the referrers of its subject. */
export const referrerDescriptor = (manifest: OciManifest, digest: Digest, size: number): Descriptor => {
  const artifactType = manifest.artifactType ?? manifest.config?.mediaType
  return {
    mediaType: manifest.mediaType,
    digest,
    size,
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(manifest.annotations === undefined ? {} : { annotations: manifest.annotations }),
  }
}

export const manifestBlobs = (manifest: OciManifest): Descriptor[] =>
  manifest.config === undefined ? manifest.layers : [manifest.config, ...manifest.layers]

/** Whether a registry may take the manifest without this layer. */
export const mayBeAbsent = ({ mediaType, urls = [] }: Descriptor): boolean =>
  urls.length > 0 || nondistributable.test(mediaType)

/** The blobs without which a manifest is not whole. */
export const requiredBlobs = (manifest: OciManifest): Digest[] => {
  const required = manifest.layers.filter((layer) => !mayBeAbsent(layer))
  return [...(manifest.config === undefined ? [] : [manifest.config]), ...required].map(
    ({ digest }) => digest,
  )
}

/** Reads a list of `{ digest }` in JSON from an annotation; one that is no such list is refused. */
export const namedInAnnotation =
  (annotation: string) =>
  (manifest: OciManifest): Digest[] => {
    const text = manifest.annotations?.[annotation]
    if (text === undefined) return []
    const list: unknown = parseJson(text)
    const digests = Array.isArray(list)
      ? list.map((item) => (isObject(item) ? item['digest'] : undefined))
      : []
    if (Array.isArray(list) && digests.every((digest) => typeof digest === 'string' && isDigest(digest)))
      return digests as Digest[]
    throw invalid(`its annotation ${annotation} is no list of digests`)
  }

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Reads untrusted bytes; everything that is kept has been checked for its type and grammar. */
export const parseManifest = (mediaType: string, bytes: Uint8Array): OciManifest => {
  if (!isManifestMediaType(mediaType))
    throw invalid(`media type ${JSON.stringify(mediaType)} is not supported`)
  const body = parseObject(bytes)
  if (body['schemaVersion'] !== 2) throw invalid('schemaVersion must be 2')
  if (body['mediaType'] !== undefined && body['mediaType'] !== mediaType) {
    throw invalid('its mediaType differs from the content type it was sent with')
  }
  const isIndex = isIndexMediaType(mediaType)
  const artifactType = optionalString(body['artifactType'], 'artifactType')
  const annotations = optionalAnnotations(body['annotations'])
  return {
    mediaType,
    layers: isIndex ? [] : layersOf(body['layers']),
    manifests: isIndex ? descriptors(body['manifests'], 'manifests') : [],
    ...(isIndex ? {} : { config: descriptor(body['config'], 'config') }),
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(body['subject'] === undefined ? {} : { subject: descriptor(body['subject'], 'subject') }),
    ...(annotations === undefined ? {} : { annotations }),
  }
}

const parseObject = (bytes: Uint8Array): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    if (isObject(value)) return value
  } catch (cause) {
    throw invalid('it is not JSON', cause)
  }
  throw invalid('it is not a JSON object')
}

const descriptors = (value: unknown, field: string): Descriptor[] => {
  if (!Array.isArray(value)) throw invalid(`${field} must be a list`)
  return value.map((item, index) => descriptor(item, `${field}[${index}]`))
}

const layersOf = (value: unknown): Descriptor[] =>
  descriptors(value, 'layers').map((layer, index) => {
    const urls = optionalUrls((value as { urls?: unknown }[])[index]?.urls, `layers[${index}].urls`)
    return urls === undefined ? layer : { ...layer, urls }
  })

const descriptor = (value: unknown, field: string): Descriptor => {
  if (!isObject(value)) throw invalid(`${field} must be a descriptor`)
  const { mediaType, digest, size } = value
  if (typeof mediaType !== 'string' || mediaType === '') throw invalid(`${field}.mediaType must be a string`)
  if (typeof digest !== 'string' || !isDigest(digest))
    throw invalid(`${field}.digest must be a sha256 or sha512 digest`)
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) {
    throw invalid(`${field}.size must be a whole number of bytes`)
  }
  const annotations = optionalAnnotations(value['annotations'])
  const artifactType = optionalString(value['artifactType'], `${field}.artifactType`)
  const platform = optionalPlatform(value['platform'])
  return {
    mediaType,
    digest,
    size,
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(annotations === undefined ? {} : { annotations }),
    ...(platform === undefined ? {} : { platform }),
  }
}

const optionalString = (value: unknown, field: string): string | undefined => {
  if (value === undefined || typeof value === 'string') return value
  throw invalid(`${field} must be a string`)
}

const optionalUrls = (value: unknown, field: string): string[] | undefined => {
  if (value === undefined || value === null) return undefined
  if (Array.isArray(value) && value.every((url) => typeof url === 'string')) return value
  throw invalid(`${field} must be a list of addresses`)
}

const optionalAnnotations = (value: unknown): Record<string, string> | undefined => {
  if (value === undefined || value === null) return undefined
  if (!isObject(value)) throw invalid('annotations must be an object')
  const entries = Object.entries(value)
  if (entries.every((entry): entry is [string, string] => typeof entry[1] === 'string')) {
    return Object.fromEntries(entries)
  }
  throw invalid('annotations must be strings')
}

const optionalPlatform = (value: unknown): Descriptor['platform'] => {
  if (value === undefined || value === null) return undefined
  if (!isObject(value)) throw invalid('platform must be an object')
  const { os, architecture, variant } = value
  if (typeof os !== 'string' || typeof architecture !== 'string') {
    throw invalid('platform must name os and architecture')
  }
  return { os, architecture, ...(typeof variant === 'string' ? { variant } : {}) }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const invalid = (why: string, cause?: unknown): OciError =>
  new OciError('MANIFEST_INVALID', `The manifest is refused: ${why}`, cause === undefined ? {} : { cause })
