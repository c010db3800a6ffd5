import type { SealedEntry, SignedHead } from '@tenon/core'
import type { Client } from '@tenon/protocol'

const PAGE = 1000

/** All of a chain as the server tells it, page by page, each with the head that stood above it then. */
export async function* readChain(
  client: Client,
  chain: string,
): AsyncGenerator<{ entries: SealedEntry[]; head: SignedHead }> {
  let afterSeq = 0
  for (;;) {
    const page = await client.call('audit.entries', { params: { chain }, query: { afterSeq, limit: PAGE } })
    yield page
    const last = page.entries.at(-1)?.seq ?? 0
    // A server that does not move on must not keep the client for ever.
    if (page.entries.length < PAGE || last <= afterSeq) return
    afterSeq = last
  }
}
