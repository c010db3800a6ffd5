import type { AuditFact, UserRole } from '@tenon/core'
import type { Context } from '../context.ts'

/** Who asks, as the API found out. */
export interface Caller {
  tokenId: string
  name: string
  role: UserRole
}

export function actorOf(caller: Caller): AuditFact['actor'] {
  return { type: 'user', id: caller.tokenId }
}

/** Who decided something: a person through the API, or the server by a schedule. */
export interface Decider {
  name: string
  actor: AuditFact['actor']
}

export function byCaller(caller: Caller): Decider {
  return { name: caller.name, actor: actorOf(caller) }
}

export function byServer(context: Context): Decider {
  return { name: 'schedule', actor: { type: 'server', id: context.serverId } }
}
