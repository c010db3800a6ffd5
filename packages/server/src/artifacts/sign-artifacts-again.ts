import { checkBundle, SERVER_CHAIN, signStatement, type Statement } from '@tenon/core'
import type { Digest } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { verify } from '../crypto.ts'
import { hasSignedAll, noteSignedAll } from '../keys/signed-form.ts'
import { isDatabaseAway } from '../store/database.ts'
import { transact } from '../store/transaction.ts'
import { readBundle } from './describe-artifact.ts'

export interface Artifact {
  repository: string
  digest: Digest
}

/** Raised when what is signed changes its form: then all is signed again, once for each key. */
const FORM = 1

/**
 * Whoever enrols after a change of keys trusts the newest alone, so everything that may be synced carries its word too;
 * and what was signed in a form that sigstore's tools refuse is signed in theirs. Answers what could not be signed; when
 * that is nothing, no start looks through all of them again.
 */
export async function signArtifactsAgain(context: Context): Promise<Artifact[]> {
  const { keyId } = context.keys.current()
  if (await hasSignedAll(context.db, keyId, FORM)) return []
  const { rows } = await sql<Artifact>`
    select artifact_repository as repository, artifact_digest as digest from build where status = 'succeeded'
    union select repository, digest from plugin`.execute(context.db)
  const failed = await signArtifacts(context, rows)
  if (failed.length === 0) await noteSignedAll(context.db, keyId, FORM)
  return failed
}

/** One that is damaged does not keep the others from their signatures. Answers those that failed. */
export async function signArtifacts(context: Context, artifacts: readonly Artifact[]): Promise<Artifact[]> {
  const failed: Artifact[] = []
  for (const artifact of artifacts)
    try {
      await signAgain(context, artifact)
    } catch (error) {
      if (isDatabaseAway(error)) throw error
      context.log.warn({ err: error, ...artifact }, 'an artifact could not be signed again')
      failed.push(artifact)
    }
  return failed
}

/** What was built across a change of keys may have been signed by the old one after all others were signed again. */
export async function signLateArtifacts(context: Context): Promise<void> {
  const { keyId } = context.keys.current()
  const { rows } = await sql<Artifact>`
    select artifact_repository as repository, artifact_digest as digest from build
    join server_key on server_key.id = ${keyId} and server_key.signed_by is not null
    where build.status = 'succeeded' and build.finished_at >= server_key.created_at
      and build.created_at <= server_key.created_at + interval '1 minute'`.execute(context.db)
  await signArtifacts(context, rows)
}

/** The same statements under the current key. Nothing is signed that no key of ours had signed before. */
async function signAgain(context: Context, { repository, digest }: Artifact): Promise<void> {
  const { registry, keys } = context
  const { keyId, key } = keys.current()
  const trusted = new Map(keys.links().map((link) => [link.keyId, link.publicKey]))
  const said = new Map<string, { statement: Statement; isCurrent: boolean }>()
  const keyIds = new Set<string>()
  for (const referrer of await registry.storage.listReferrers(repository, digest)) {
    if (referrer.artifactType !== MEDIA_TYPES.bundle) continue
    const text = await readBundle(registry.storage, repository, referrer.digest)
    const check = text === undefined ? undefined : checkBundle(text, digest, trusted, verify)
    if (!check?.ok) continue
    keyIds.add(check.keyId)
    const isCurrent =
      (check.keyId === keyId && check.isStandard) || said.get(check.predicateType)?.isCurrent === true
    said.set(check.predicateType, { statement: check.statement, isCurrent })
  }
  const missing = [...said].filter(([, { isCurrent }]) => !isCurrent)
  const found = missing.length > 0 ? await registry.storage.getManifest(repository, digest) : undefined
  if (!found) return
  const subject = { mediaType: found.mediaType, digest, size: found.bytes.byteLength }
  for (const [predicateType, { statement }] of missing)
    await registry.storeBundle(repository, subject, {
      predicateType,
      text: signStatement(statement, keyId, key.sign),
    })
  await transact(context, async (tx) =>
    tx.audit(SERVER_CHAIN, {
      actor: { type: 'server', id: context.serverId },
      action: 'artifact.signed',
      subject: { type: 'artifact', id: `${repository}@${digest}` },
      outcome: 'ok',
      manifestDigest: null,
      details: {
        keyId,
        why: keyIds.has(keyId) ? 'other tools refused the old form' : 'the keys were rotated',
      },
    }),
  )
}
