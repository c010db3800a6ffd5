import { mediaTypes } from '../manifest.ts'
import type { Digest } from '../reference.ts'
import type { Exchange } from './exchange.ts'
import { RegistryRefusal, sendJson } from './respond.ts'

export const listTags = async (exchange: Exchange, repository: string): Promise<void> => {
  requireGet(exchange)
  await exchange.allow({ repository, action: 'pull' })
  const tags = await exchange.storage.listTags(repository)
  if (tags === undefined)
    throw new RegistryRefusal(404, 'NAME_UNKNOWN', `There is no repository ${repository}`)
  const page = pageOf(tags, exchange.query.get('last') ?? '', exchange.query.get('n'))
  const last = page.tags.at(-1)
  const link =
    page.more && last !== undefined
      ? {
          Link: `</v2/${repository}/tags/list?n=${page.tags.length}&last=${encodeURIComponent(last)}>; rel="next"`,
        }
      : {}
  sendJson(exchange.res, 200, { name: repository, tags: page.tags }, link)
}

export const listReferrers = async (
  exchange: Exchange,
  route: { repository: string; digest: Digest },
): Promise<void> => {
  requireGet(exchange)
  const { repository, digest } = route
  await exchange.allow({ repository, action: 'pull', digest })
  const all = await exchange.storage.listReferrers(repository, digest)
  const wanted = exchange.query.get('artifactType')
  const manifests = wanted === null ? all : all.filter((referrer) => referrer.artifactType === wanted)
  sendJson(
    exchange.res,
    200,
    { schemaVersion: 2, mediaType: mediaTypes.index, manifests },
    {
      'Content-Type': mediaTypes.index,
      ...(wanted === null ? {} : { 'OCI-Filters-Applied': 'artifactType' }),
    },
  )
}

/** `tags` is sorted; without a usable `n` everything after `last` is one page. */
const pageOf = (tags: string[], last: string, n: string | null): { tags: string[]; more: boolean } => {
  const after = last === '' ? tags : tags.filter((tag) => tag > last)
  if (n === null || !/^\d{1,9}$/.test(n)) return { tags: after, more: false }
  return { tags: after.slice(0, Number(n)), more: Number(n) > 0 && after.length > Number(n) }
}

const requireGet = ({ req }: Exchange): void => {
  if (req.method === 'GET' || req.method === 'HEAD') return
  throw new RegistryRefusal(405, 'UNSUPPORTED', 'The method does not fit this address', {
    Allow: 'GET, HEAD',
  })
}
