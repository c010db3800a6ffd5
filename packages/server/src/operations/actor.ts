import type { AuditFact, UserRole } from '@tenon/core'

/** Who asks, as the API found out. */
export interface Caller {
  tokenId: string
  name: string
  role: UserRole
}

export function actorOf(caller: Caller): AuditFact['actor'] {
  return { type: 'user', id: caller.tokenId }
}
