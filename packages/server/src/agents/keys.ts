import type { AgentKeyChange, SignedText } from '@tenon/core'
import { sql } from 'kysely'
import type { Db } from '../store/database.ts'

/** All keys that each of these agents has had, the one it has now first. */
export async function agentKeysOf(
  db: Db,
  agents: readonly { id: string; public_key: string }[],
): Promise<ReadonlyMap<string, string[]>> {
  const changes = await keyChangesOf(
    db,
    agents.map(({ id }) => id),
  )
  const earlier = (id: string) =>
    (changes.get(id) ?? []).map(({ text }) => (JSON.parse(text) as AgentKeyChange).previous).toReversed()
  return new Map(agents.map(({ id, public_key: key }) => [id, [key, ...earlier(id)]]))
}

/** The changes of keys of these agents, oldest first. */
export async function keyChangesOf(
  db: Db,
  agentIds: readonly string[],
): Promise<ReadonlyMap<string, SignedText[]>> {
  const rows = await db
    .selectFrom('agent_key')
    .select(['agent_id', 'text', 'signature'])
    .where(sql<boolean>`agent_id = any(${[...agentIds]})`)
    .orderBy('agent_id')
    .orderBy('position')
    .execute()
  const changes = new Map(rows.map((row): [string, SignedText[]] => [row.agent_id, []]))
  for (const { agent_id: id, text, signature } of rows) changes.get(id)?.push({ text, signature })
  return changes
}
