import type { IncomingMessage } from 'node:http'
import type { Digest } from '../reference.ts'

export type RegistryAction = 'pull' | 'push' | 'delete'

/** What a request wants; `digest` is what a tag stands for where that is known. */
export interface AccessRequest {
  bearer: string | undefined
  repository: string | undefined
  action: RegistryAction
  reference?: string
  digest?: Digest
}

export type AccessDecision = { ok: true } | AccessRefusal

export interface AccessRefusal {
  ok: false
  status: 401 | 403
  message: string
  /** Set when the token is one of ours: who it was given to, and why it is not enough. */
  subject?: string
  reason?: 'expired' | 'ended' | 'not_granted'
}

export type Authorize = (request: AccessRequest) => Promise<AccessDecision>

/** Some tools know only basic credentials; the password is then what others send as a bearer. */
export const readBearer = (authorization: string | undefined): string | undefined => {
  const [, scheme = '', value = ''] = /^(\S+) +(\S+)$/.exec(authorization ?? '') ?? []
  if (scheme.toLowerCase() === 'bearer') return value
  if (scheme.toLowerCase() !== 'basic') return undefined
  const decoded = Buffer.from(value, 'base64').toString('utf8')
  const colon = decoded.indexOf(':')
  return colon < 0 || colon === decoded.length - 1 ? undefined : decoded.slice(colon + 1)
}

/** A name and a password, as a client sends them to the token endpoint. */
export const readBasic = (
  authorization: string | undefined,
): { username: string; password: string } | undefined => {
  const [, value = ''] = /^basic +(\S+)$/i.exec(authorization ?? '') ?? []
  const [, username, password] = /^([^:]*):(.+)$/s.exec(Buffer.from(value, 'base64').toString('utf8')) ?? []
  return username === undefined || password === undefined ? undefined : { username, password }
}

/**
 * Where clients trade credentials for a bearer. Without a configured realm it is this server as the
 * client called it; behind a TLS proxy the realm must be given, or clients would be sent to http.
 */
export const challenge = (
  req: IncomingMessage,
  realm: string | undefined,
  scope: { repository: string | undefined; action: RegistryAction },
): string => {
  const scheme = 'encrypted' in req.socket ? 'https' : 'http'
  const url = realm ?? `${scheme}://${hostOf(req)}${TOKEN_PATH}`
  const actions = scope.action === 'pull' ? 'pull' : `pull,${scope.action}`
  const suffix = scope.repository === undefined ? '' : `,scope="repository:${scope.repository}:${actions}"`
  return `Bearer realm="${url.replaceAll(/["\\\r\n]/g, '')}",service="tenon"${suffix}`
}

export const TOKEN_PATH = '/v2/token'

const hostOf = (req: IncomingMessage): string => {
  const host = req.headers.host ?? ''
  return /^[a-zA-Z0-9.:[\]-]{1,255}$/.test(host) ? host : `127.0.0.1:${req.socket.localPort ?? 0}`
}
