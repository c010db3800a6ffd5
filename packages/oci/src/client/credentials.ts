import { OciError } from '../errors.ts'

/** A bearer is sent as it is; a name and password answer whichever challenge the registry gives. */
export type Credential = { bearer: string } | { username: string; password: string }

/** Asked before every request, so that what expires may be renewed; a 401 asks once more. */
export type Credentials = () => Promise<Credential | undefined>

export const anonymous: Credentials = async () => undefined

export const basicCredentials =
  (username: string, password: string): Credentials =>
  async () => ({ username, password })

/** What a cloud's registry service gives: ECR's `GetAuthorizationToken` has exactly this shape. */
export interface EcrTokenSource {
  /** Base64 of `AWS:<password>`, good until `expiresAt` (milliseconds). */
  authorizationToken(): Promise<{ authorizationToken: string; expiresAt: number }>
}

/** Keeps one token for half of its life; calls at the same time share one request for it. */
export const ecrCredentials = (source: EcrTokenSource, now: () => number): Credentials => {
  let held: { credential: Credential; until: number } | undefined
  let asking: Promise<Credential> | undefined
  const renew = async (): Promise<Credential> => {
    const { authorizationToken, expiresAt } = await source.authorizationToken()
    const credential = readPair(authorizationToken)
    held = { credential, until: now() + (expiresAt - now()) / 2 }
    return credential
  }
  return async () => {
    if (held !== undefined && now() < held.until) return held.credential
    asking ??= renew().finally(() => (asking = undefined))
    return asking
  }
}

export const basicHeader = ({ username, password }: { username: string; password: string }): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

const readPair = (token: string): Credential => {
  const [, username, password] = /^([^:]+):(.+)$/s.exec(Buffer.from(token, 'base64').toString('utf8')) ?? []
  if (username !== undefined && password !== undefined) return { username, password }
  throw new OciError('TOKEN_INVALID', 'The token of the registry service is not a name and a password')
}
