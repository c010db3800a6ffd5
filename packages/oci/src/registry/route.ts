import { OciError } from '../errors.ts'
import { parseDigest, parseRepository, parseTagOrDigest } from '../reference.ts'
import type { Digest } from '../reference.ts'
import { TOKEN_PATH } from './access.ts'

export type Route =
  | { kind: 'base' }
  | { kind: 'token' }
  | { kind: 'blob'; repository: string; digest: Digest }
  | { kind: 'uploads'; repository: string }
  | { kind: 'upload'; repository: string; id: string }
  | { kind: 'manifest'; repository: string; reference: { tag: string } | { digest: Digest } }
  | { kind: 'tags'; repository: string }
  | { kind: 'referrers'; repository: string; digest: Digest }

/**
 * Reads the raw path, never a normalised one, so `..` and escapes meet the name grammar and fail there.
 * A repository may itself have a component called `blobs`: the last separator decides.
 */
export const parseRoute = (path: string): Route | undefined => {
  if (path === '/v2/' || path === '/v2') return { kind: 'base' }
  if (path === TOKEN_PATH) return { kind: 'token' }
  const [, name, section, rest = ''] = sections.exec(path) ?? []
  if (name === undefined) return undefined
  if (section === 'blobs/uploads') {
    const repository = parseRepository(name)
    return rest === '' ? { kind: 'uploads', repository } : { kind: 'upload', repository, id: rest }
  }
  if (section === 'tags')
    return rest === 'list' ? { kind: 'tags', repository: parseRepository(name) } : undefined
  const last = decode(rest)
  const repository = parseRepository(name)
  if (section === 'blobs') return { kind: 'blob', repository, digest: parseDigest(last) }
  if (section === 'referrers') return { kind: 'referrers', repository, digest: parseDigest(last) }
  return { kind: 'manifest', repository, reference: parseTagOrDigest(last) }
}

const sections = /^\/v2\/(.+)\/(blobs\/uploads|blobs|manifests|tags|referrers)\/([^/]*)$/

/** Some clients escape the colon of a digest. */
const decode = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch (cause) {
    throw new OciError('NAME_INVALID', 'The path holds a broken escape', { cause })
  }
}
