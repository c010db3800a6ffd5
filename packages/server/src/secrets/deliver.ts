import { sql } from 'kysely'
import { isoNow, type Context } from '../context.ts'

/** One that an agent could not store: a full disk may have room by then. */
const OFFER_AGAIN_SECONDS = 300

export interface SecretToSend {
  id: number
  install_id: string
  name: string
  ciphertext: Buffer
}

/** Values that these installs do not have yet, oldest first. */
export async function secretsToSend(
  context: Context,
  installIds: readonly string[],
): Promise<SecretToSend[]> {
  if (installIds.length === 0) return []
  const { rows } = await sql<SecretToSend>`
    select id, install_id, name, ciphertext from install_secret
    where install_id = any(${installIds}) and delivered_at is null
      and (refused_at is null or refused_at < ${isoNow(context, -OFFER_AGAIN_SECONDS)}) order by id`.execute(
    context.db,
  )
  return rows
}
