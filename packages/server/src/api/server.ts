import { headStatement, parseEntry, SERVER_CHAIN, type AuditHead } from '@tenon/core'
import { PRODUCT_VERSION } from '@tenon/protocol'
import { sql, type Selectable } from 'kysely'
import type { Context } from '../context.ts'
import { fingerprint } from '../crypto.ts'
import { newKeyRow } from '../keys/key-ring.ts'
import { actorOf } from '../people/actor.ts'
import { chainOf } from '../audit/chains.ts'
import { createJoinToken } from '../agents/join-tokens.ts'
import { signArtifactsAgain } from '../artifacts/sign-artifacts-again.ts'
import { keyChangesOf } from '../agents/keys.ts'
import type { Db } from '../store/database.ts'
import { PROCESS_DEAD_SECONDS } from '../agents/processes.ts'
import type { Database } from '../store/schema.ts'
import { anyOf } from '../store/statements.ts'
import { transact } from '../store/transaction.ts'
import { shownName } from '../store/views.ts'
import { notFound } from '../errors.ts'
import { pageOf, type Handlers } from './handler.ts'

export const serverHandlers = {
  'server.info': async ({ context, caller }) => ({
    serverId: context.serverId,
    version: PRODUCT_VERSION,
    fingerprint: fingerprint(context.keys.current().key.publicKey),
    keys: context.keys.links(),
    you: {
      tokenId: caller.tokenId,
      name: caller.tokenName,
      role: caller.grant.role,
      principal: caller.principal,
    },
  }),
  'keys.rotate': async ({ context, caller }) => {
    await transact(context, async (tx) => {
      await tx.db.selectFrom('server_identity').select('server_id').forUpdate().execute()
      await context.keys.reload()
      const row = newKeyRow(context.config.masterKey, context.now(), context.keys.current())
      await tx.db.insertInto('server_key').values(row).execute()
      tx.audit(SERVER_CHAIN, {
        actor: actorOf(caller),
        action: 'key.rotated',
        subject: { type: 'key', id: row.id },
        outcome: 'ok',
        manifestDigest: null,
        details: { signedBy: row.signed_by, publicKey: row.public_key },
      })
      tx.nudge('keys')
    })
    await context.keys.reload()
    await signArtifactsAgain(context)
    return { keys: context.keys.links() }
  },

  'agents.list': async ({ context, query }) => {
    const rows = await context.db
      .selectFrom('agent')
      .selectAll()
      .$if(query.after !== undefined, (q) => q.where('id', '>', query.after!))
      .orderBy('id')
      .limit(query.limit + 1)
      .execute()
    const page = pageOf(rows, query.limit, (row) => row)
    return { items: await Promise.all(page.items.map((row) => agentView(context, row))), next: page.next }
  },
  'agents.joinToken': async ({ context, body, caller }) =>
    transact(context, (tx) =>
      createJoinToken(
        context,
        tx,
        { role: body.role, installId: null, expiresInSeconds: body.expiresInSeconds },
        actorOf(caller),
      ),
    ),
  'agents.revoke': async ({ context, params, caller }) => {
    const row = await transact(context, async (tx) => {
      const agent = await tx.db
        .updateTable('agent')
        .set({ status: 'revoked' })
        .where('id', '=', params.id)
        .returningAll()
        .executeTakeFirst()
      if (!agent) throw notFound('agent', params.id)
      tx.audit(chainOf(agent.install_id), {
        actor: actorOf(caller),
        action: 'agent.revoked',
        subject: { type: 'agent', id: agent.id },
        outcome: 'ok',
        manifestDigest: null,
        details: {},
      })
      tx.nudge(`agent:${agent.id}`)
      return agent
    })
    return agentView(context, row)
  },

  'audit.chains': async ({ context }) => {
    const heads = await context.db.selectFrom('audit_head').selectAll().orderBy('chain').execute()
    const agents = await context.db.selectFrom('agent').select(['id', 'public_key']).execute()
    const changes = await keyChangesOf(
      context.db,
      agents.map(({ id }) => id),
    )
    return {
      chains: heads.map((head) => signHead(context, head)),
      agents: agents.map((a) => ({
        agentId: a.id,
        publicKey: a.public_key,
        keyChanges: changes.get(a.id) ?? [],
      })),
    }
  },
  'audit.entries': async ({ context, params, query }) => {
    const head = await context.db
      .selectFrom('audit_head')
      .selectAll()
      .where('chain', '=', params.chain)
      .executeTakeFirst()
    if (!head) throw notFound('audit chain', params.chain)
    const entries = await context.db
      .selectFrom('audit_entry')
      .select(['seq', 'body', 'hash'])
      .where('chain', '=', params.chain)
      .where('seq', '>', query.afterSeq)
      .orderBy('seq')
      .limit(query.limit)
      .execute()
    const names = await namesOf(context.db, entries)
    return { entries, head: signHead(context, head), names }
  },
} satisfies Partial<Handlers>

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

async function agentView({ db, now }: Context, row: Selectable<Database['agent']>) {
  const nowMs = now()
  const { n } = await db
    .selectFrom('job')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('agent_id', '=', row.id)
    .where('status', '=', anyOf(['assigned', 'running']))
    .executeTakeFirstOrThrow()
  const install =
    row.install_id === null
      ? undefined
      : await db
          .selectFrom('install')
          .select(shownName.as('name'))
          .where('id', '=', row.install_id)
          .executeTakeFirst()
  const process = await db
    .selectFrom('server_process')
    .select('id')
    .where('id', '=', row.process_id ?? '')
    .where('seen_at', '>', new Date(nowMs - PROCESS_DEAD_SECONDS * 1000).toISOString())
    .executeTakeFirst()
  return {
    id: row.id,
    role: row.role,
    installId: row.install_id,
    install: install?.name ?? null,
    status: row.status,
    connected: row.session_id !== null && process !== undefined,
    lastSeenAt: row.last_seen_at,
    version: row.version,
    hostname: row.hostname,
    runtime: row.runtime,
    slots: row.slots,
    running: n,
    dropped: row.dropped,
    createdAt: row.created_at,
  }
}
