import { headStatement, parseEntry, type AuditHead } from '@tenon/core'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { notFound } from '../errors.ts'
import type { Db } from '../store/database.ts'

export async function chainHeads(context: Context) {
  const heads = await context.db.selectFrom('audit_head').selectAll().orderBy('chain').execute()
  return heads.map((head) => signHead(context, head))
}

export async function chainEntries(
  context: Context,
  chain: string,
  page: { afterSeq: number; limit: number },
) {
  const head = await context.db
    .selectFrom('audit_head')
    .selectAll()
    .where('chain', '=', chain)
    .executeTakeFirst()
  if (!head) throw notFound('audit chain', chain)
  const entries = await context.db
    .selectFrom('audit_entry')
    .select(['seq', 'body', 'hash'])
    .where('chain', '=', chain)
    .where('seq', '>', page.afterSeq)
    .orderBy('seq')
    .limit(page.limit)
    .execute()
  return { entries, head: signHead(context, head), names: await namesOf(context.db, entries) }
}

/** Entries name ids, which stay; those of before there were principals name tokens. */
async function namesOf(db: Db, entries: { body: string }[]): Promise<Record<string, string>> {
  const ids = [...new Set(entries.map(({ body }) => parseEntry(body)?.actor?.id ?? ''))]
  const { rows } = await sql<{ id: string; name: string }>`
    select id, name from principal where id = any(${ids})
    union all
    select api_token.id, principal.name from api_token
    join principal on principal.id = api_token.principal_id where api_token.id = any(${ids})`.execute(db)
  return Object.fromEntries(rows.map(({ id, name }) => [id, name]))
}

function signHead(context: Context, head: AuditHead) {
  const at = new Date(context.now()).toISOString()
  const { keyId, key } = context.keys.current()
  return {
    chain: head.chain,
    seq: head.seq,
    hash: head.hash,
    at,
    keyId,
    signature: key.sign(headStatement({ ...head, at })),
  }
}
