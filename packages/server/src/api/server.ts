import { PRODUCT_VERSION } from '@tenon/protocol'
import { createJoinToken } from '../agents/join-tokens.ts'
import { revokeAgent } from '../agents/revoke.ts'
import { agentKeyViews, agentView, agentViews, listAgents } from '../agents/views.ts'
import { signArtifactsAgain } from '../artifacts/sign-artifacts-again.ts'
import { chainEntries, chainHeads } from '../audit/queries.ts'
import { fingerprint } from '../crypto.ts'
import { rotateKey } from '../keys/rotate.ts'
import { actorOf } from '../people/actor.ts'
import { transact } from '../store/transaction.ts'
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
    await rotateKey(context, actorOf(caller))
    await signArtifactsAgain(context)
    return { keys: context.keys.links() }
  },

  'agents.list': async ({ context, query: { after, limit } }) => {
    const page = pageOf(await listAgents(context.db, { after, limit: limit + 1 }), limit, (row) => row)
    return { items: await agentViews(context, page.items), next: page.next }
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
    await revokeAgent(context, params.id, caller)
    return agentView(context, params.id)
  },

  'audit.chains': async ({ context }) => ({
    chains: await chainHeads(context),
    agents: await agentKeyViews(context.db),
  }),
  'audit.entries': async ({ context, params, query }) => chainEntries(context, params.chain, query),
} satisfies Partial<Handlers>
