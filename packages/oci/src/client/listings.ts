import { OciError } from '../errors.ts'
import { MAX_MANIFEST_BYTES, mediaTypes, parseManifest, referrerDescriptor } from '../manifest.ts'
import type { Descriptor } from '../manifest.ts'
import { digestAlgorithm, digestHex, isTag, parseRepository } from '../reference.ts'
import type { Digest } from '../reference.ts'
import { withRetries } from './retry.ts'
import { anySignal, discard, readBounded } from './transport.ts'
import type { Transport, WireAnswer } from './transport.ts'

export interface ReferrerOptions {
  signal?: AbortSignal
  artifactType?: string
}

interface Call {
  signal?: AbortSignal
}

const MAX_PAGES = 1000
const MAX_PAGE_BYTES = 4 * 1024 * 1024

export const listTags = async (transport: Transport, repository: string, call: Call): Promise<string[]> => {
  const tags: string[] = []
  for await (const page of pages(transport, `/v2/${repository}/tags/list`, call)) {
    const list = (page as { tags?: unknown }).tags ?? []
    if (!Array.isArray(list)) throw new OciError('RESPONSE_INVALID', 'The registry answered without tags')
    tags.push(...list.filter((tag): tag is string => typeof tag === 'string' && isTag(tag)))
  }
  return tags
}

export const listReferrers = async (
  transport: Transport,
  repository: string,
  subject: Digest,
  options: ReferrerOptions,
): Promise<Descriptor[]> => {
  const { artifactType, ...call } = options
  const query = artifactType === undefined ? '' : `?artifactType=${encodeURIComponent(artifactType)}`
  const found: Descriptor[] = []
  let isSupported = false
  for await (const page of pages(transport, `/v2/${repository}/referrers/${subject}${query}`, call)) {
    isSupported = true
    found.push(...parseIndex(page))
  }
  const all = isSupported ? found : await readTag(transport, repository, fallbackTag(subject), call)
  // A registry need not filter, so what it sends is filtered here too.
  return artifactType === undefined ? all : all.filter((each) => each.artifactType === artifactType)
}

/** Adds a manifest that has a subject to the tag that stands for the referrers API where there is none. */
export const listUnderTag = async (
  transport: Transport,
  repository: string,
  info: { digest: Digest; mediaType: string; size: number },
  bytes: Uint8Array,
  call: Call,
): Promise<void> => {
  const manifest = parseManifest(info.mediaType, bytes)
  if (manifest.subject === undefined) return
  const name = parseRepository(repository)
  const tag = fallbackTag(manifest.subject.digest)
  const others = (await readTag(transport, name, tag, call)).filter((each) => each.digest !== info.digest)
  const manifests = [...others, referrerDescriptor(manifest, info.digest, info.size)]
  const body = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests }))
  const headers = { 'content-type': mediaTypes.index }
  const path = `/v2/${name}/manifests/${tag}`
  await discard(await transport.send({ method: 'PUT', path, headers, body, expect: [201], ...call }))
}

/** A tag has at most 128 characters, so the specification cuts the digest. */
const fallbackTag = (subject: Digest): string =>
  `${digestAlgorithm(subject)}-${digestHex(subject).slice(0, 64)}`

const readTag = async (
  transport: Transport,
  repository: string,
  tag: string,
  call: Call,
): Promise<Descriptor[]> => {
  const path = `/v2/${repository}/manifests/${tag}`
  const headers = { accept: mediaTypes.index }
  const found = await readJson(transport, path, MAX_MANIFEST_BYTES, call, headers)
  return found === undefined ? [] : parseIndex(found.body)
}

/** Follows `Link` to the next page, on the same registry only. Nothing comes when the first is 404. */
async function* pages(transport: Transport, first: string, call: Call): AsyncGenerator<unknown> {
  let path: string | undefined = first
  for (let count = 0; path !== undefined; count++) {
    if (count >= MAX_PAGES) throw new OciError('TOO_LARGE', `The registry lists more than ${MAX_PAGES} pages`)
    const found = await readJson(transport, path, MAX_PAGE_BYTES, call)
    if (found === undefined) return
    yield found.body
    const [, next] = /<([^>]+)>\s*;\s*rel="?next"?/.exec(found.answer.header('link') ?? '') ?? []
    path = next === undefined ? undefined : transport.follow(next, path)
  }
}

const readJson = (
  transport: Transport,
  path: string,
  limit: number,
  call: Call,
  headers: Record<string, string> = {},
): Promise<{ body: unknown; answer: WireAnswer } | undefined> =>
  withRetries(transport.retry, anySignal(transport.signal, call.signal), async () => {
    const answer = await transport.once({ method: 'GET', path, headers, expect: [200, 404], ...call })
    if (answer.status === 404) {
      await discard(answer)
      return undefined
    }
    const text = (await readBounded(answer, limit)).toString('utf8')
    try {
      return { body: JSON.parse(text) as unknown, answer }
    } catch (cause) {
      throw new OciError('RESPONSE_INVALID', 'The registry answered without a list', { cause })
    }
  })

const parseIndex = (body: unknown): Descriptor[] =>
  parseManifest(mediaTypes.index, Buffer.from(JSON.stringify(body))).manifests
