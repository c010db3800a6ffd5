/** An image that an artifact needs when it runs: found at build time, copied beside it under its digest. */
export interface ClosureImage {
  /** As the chart, manifest or component names it. */
  image: string
  digest: string
}

/** What builds write into an artifact's manifest, so that its digest and signature cover it. */
export const ANNOTATIONS = {
  /** JSON: ClosureImage[]. The images lie in the artifact's own repository. */
  closure: 'dev.tenon.closure',
} as const

/** Undefined when the annotation is no list of images. */
export function parseClosure(annotation: string | undefined): ClosureImage[] | undefined {
  if (annotation === undefined) return []
  let value: unknown
  try {
    value = JSON.parse(annotation)
  } catch {
    return undefined
  }
  if (!Array.isArray(value) || !value.every(isClosureImage)) return undefined
  return value.map(({ image, digest }) => ({ image, digest }))
}

function isClosureImage(value: unknown): value is ClosureImage {
  const { image, digest } = (value ?? {}) as { [key: string]: unknown }
  return typeof image === 'string' && typeof digest === 'string' && /^sha256:[0-9a-f]{64}$/.test(digest)
}
