import { isGranted } from '@tenon/core'
import { SUBJECTS, type Route } from '@tenon/protocol'
import { ApiFailure } from '../errors.ts'
import type { Caller } from './actor.ts'
import type { Token } from './tokens.ts'

/** Whom a token stands for now, or why for nobody. */
export function callerOf(token: Token, nowMs: number): Caller | { refusal: ApiFailure } {
  if (token.revoked_at) return { refusal: unauthorized('this API token was revoked') }
  if (token.expires_at && Date.parse(token.expires_at) <= nowMs) {
    const refusal = new ApiFailure('token_expired', `this API token expired at ${token.expires_at}`, {
      remedy: 'Ask an owner for a new one.',
    })
    return { refusal }
  }
  return {
    principal: { id: token.principal_id, kind: token.principal_kind, name: token.principal_name },
    tokenId: token.id,
    tokenName: token.name,
    grant: { role: token.role, scope: 'all' },
  }
}

/** What a route asks for: a permission, on a subject. */
export type Right = Pick<Route, 'permission' | 'subject'>

/** The one place where role and scope are held against a route; whatever no grant allows is denied. */
export function authorize(caller: Caller, route: Right): void {
  if (!mayCall(caller, route)) throw forbidden(caller)
}

/** For the call that turned out to do more. A route that says nothing of it lets nobody. */
export function authorizeElevated(
  caller: Caller,
  { elevated, subject }: Pick<Route, 'elevated' | 'subject'>,
): void {
  if (!elevated || !mayCall(caller, { permission: elevated.permission, subject })) throw forbidden(caller)
}

export function mayCall({ grant }: Caller, { permission, subject }: Right): boolean {
  return Object.hasOwn(SUBJECTS, subject) && isGranted(grant, permission, SUBJECTS[subject].kind)
}

function forbidden(caller: Caller): ApiFailure {
  return new ApiFailure('forbidden', `the role ${caller.grant.role} may not do this`, {
    remedy: 'Ask an owner for a token with a wider role.',
  })
}

export function unauthorized(message: string): ApiFailure {
  return new ApiFailure('unauthorized', message, {
    remedy: 'Sign in with `tenon login`, or set TENON_TOKEN_FILE.',
  })
}
