import { SERVER_CHAIN, sizeWords } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { actorOf, type Caller } from '../people/actor.ts'
import { transact } from '../store/transaction.ts'
import { LayerTooLarge } from './registry-store.ts'

const MAX_SOURCE_BYTES = 268_435_456
const SOURCES = 'tenon/sources'

/** What somebody sent to be built; builds name it by its digest. */
export async function storeSource(context: Context, body: AsyncIterable<Uint8Array>, caller: Caller) {
  try {
    const stored = await context.registry.storeLayer(
      SOURCES,
      MEDIA_TYPES.source,
      MEDIA_TYPES.folderLayer,
      body,
      MAX_SOURCE_BYTES,
    )
    await transact(context, async (tx) =>
      tx.audit(SERVER_CHAIN, {
        actor: actorOf(caller),
        action: 'source.stored',
        subject: { type: 'artifact', id: `${SOURCES}@${stored.digest}` },
        outcome: 'ok',
        manifestDigest: null,
        details: { size: stored.size },
      }),
    )
    return stored
  } catch (error) {
    if (!(error instanceof LayerTooLarge)) throw error
    throw new ApiFailure('too_large', `a packed source may have ${sizeWords(MAX_SOURCE_BYTES)}`, {
      remedy: 'Leave out what the build does not need with an ignore file.',
    })
  }
}
