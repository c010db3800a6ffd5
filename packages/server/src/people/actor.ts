import type { AuditFact, Grant, PrincipalKind } from '@tenon/core'
import type { Context } from '../context.ts'

export interface Principal {
  id: string
  kind: PrincipalKind
  name: string
}

/** Who asks, as the API found out, with which token, and what that one grants. */
export interface Caller {
  principal: Principal
  tokenId: string
  tokenName: string
  grant: Grant
}

export function actorOf({ principal, tokenId }: Caller): AuditFact['actor'] {
  return { type: principal.kind, id: principal.id, token: tokenId }
}

/** Who decided something: somebody through the API, or the server by a schedule. */
export interface Decider {
  name: string
  actor: AuditFact['actor']
}

export function byCaller(caller: Caller): Decider {
  return { name: caller.principal.name, actor: actorOf(caller) }
}

export function byServer(context: Context): Decider {
  return { name: 'schedule', actor: { type: 'server', id: context.serverId } }
}
