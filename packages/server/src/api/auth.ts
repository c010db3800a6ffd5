import type { FastifyRequest } from 'fastify'
import type { Context } from '../context.ts'
import type { Caller } from '../people/actor.ts'
import { callerOf, unauthorized } from '../people/authority.ts'
import { findToken, noteUse, TOKEN_PREFIX } from '../people/tokens.ts'

/** Looked up by its hash, compared in constant time, refused when expired or revoked. */
export async function authenticate(context: Context, request: FastifyRequest): Promise<Caller> {
  const given = request.headers.authorization
  const secret = /^Bearer (\S{20,200})$/.exec(given ?? '')?.[1]
  if (given === undefined) throw unauthorized('this needs an API token')
  if (!/^Bearer\s+\S/.test(given))
    throw unauthorized('what was sent as Authorization is not `Bearer` and an API token')
  if (!secret?.startsWith(TOKEN_PREFIX))
    throw unauthorized(`what was sent is no API token: one begins with ${TOKEN_PREFIX} and is longer`)
  const token = await findToken(context.db, secret)
  if (!token) throw unauthorized('this API token is not one of this server')
  const caller = callerOf(token, context.now())
  if ('refusal' in caller) throw caller.refusal
  await noteUse(context, token)
  return caller
}
