import { OciError } from './errors.ts'
import { formatImageReference, parseImageReference } from './reference.ts'
import type { ImageReference } from './reference.ts'

const HUB = 'docker.io'

/** Reads an image as charts and manifests name it: without a registry it is Docker Hub's, without a tag `latest`. */
export const parseImageName = (name: string): ImageReference => {
  const [first = '', ...rest] = name.split('/')
  const hasRegistry = rest.length > 0 && (/[.:]/.test(first) || first === 'localhost')
  const registry = hasRegistry ? first.replace(/^(?:index|registry-1)\.docker\.io$/, HUB) : HUB
  const path = hasRegistry ? rest.join('/') : name
  const full = registry === HUB && !path.includes('/') ? `library/${path}` : path
  const reference = parseImageReference(`${registry}/${full}`)
  return reference.tag === undefined && reference.digest === undefined
    ? { ...reference, tag: 'latest' }
    : reference
}

/** The same image under its whole name, so that two ways of writing it can be told to be one. */
export const wholeImageName = (name: string): string => formatImageReference(parseImageName(name))

export const isImageName = (name: string): boolean => {
  try {
    parseImageName(name)
    return true
  } catch (error) {
    if (error instanceof OciError) return false
    throw error
  }
}

/** Where the registry of an image is spoken to: encrypted, except on this machine itself. */
export const registryUrl = (registry: string): string => {
  if (registry === HUB) return 'https://registry-1.docker.io'
  const isHere = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/.test(registry)
  return `${isHere ? 'http' : 'https'}://${registry}`
}
