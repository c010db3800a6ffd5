import { randomBytes } from 'node:crypto'
import { extendPinnedKeys, fullJitter, signingBytes, type KeyLink } from '@tenon/core'
import {
  enrolResponse,
  parseJoinToken,
  proveResponse,
  PRODUCT_VERSION,
  type EnrolRequest,
  type JoinToken,
} from '@tenon/protocol'
import type { Logger } from 'pino'
import { fingerprint, verify, type SigningKey } from './crypto.ts'
import { AgentError, messageOf } from './errors.ts'
import { postJson, type JsonAnswer } from './http.ts'
import type { NewIdentity } from './identity.ts'
import { pause } from './pause.ts'
import type { ProxySettings } from './proxy.ts'

export interface EnrolOptions {
  serverUrl: string
  joinToken: string
  key: SigningKey
  recipient: string | null
  hostname: string
  proxy: ProxySettings
  log: Logger
  random: () => number
  signal: AbortSignal
}

/** Trades the join token for an identity. The token is shown only to a server that proved the key the token names. */
export async function enrol(options: EnrolOptions): Promise<NewIdentity> {
  const token = parseJoinToken(options.joinToken)
  if (!token) {
    throw new AgentError(
      'bad_config',
      'The join token does not have the form tenonjoin.<id>.<secret>.<fingerprint>.',
      'Make a new one with `tenon tokens` and pass it whole.',
    )
  }
  const nonce = randomBytes(32).toString('base64')
  const proof = proveResponse.safeParse(await ask(options, 'prove', { nonce }))
  if (!proof.success) throw notProven('its answer does not have the expected form')
  const { serverId, keyId, keys, signature } = proof.data
  const pinned = trustedKeys(token, keys)
  const key = pinned.get(keyId)
  const challenge = signingBytes('server-challenge/1', {
    agentId: '',
    agentNonce: nonce,
    nonce: '',
    serverId,
  })
  if (!key) throw notProven('it shows no key that the join token vouches for')
  if (!verify(key, challenge, signature)) throw notProven('its signature does not hold')

  const answer = enrolResponse.safeParse(await ask(options, 'enrol', enrolmentOf(options)))
  if (!answer.success) throw notProven('its answer to the enrolment does not have the expected form')
  const { agentId, role, installId } = answer.data
  if (answer.data.serverId !== serverId) throw notProven('its id changed between two answers')
  const all = extendPinnedKeys(pinned, answer.data.keys, verify)
  return { agentId, serverId, role, installId, pinnedKeys: Object.fromEntries(all) }
}

/** Pure: the key whose fingerprint the token carries, and every key chained to it. */
export function trustedKeys(token: JoinToken, offered: readonly KeyLink[]): Map<string, string> {
  const root = offered.find((link) => fingerprint(link.publicKey) === token.fingerprint)
  if (!root) return new Map()
  return extendPinnedKeys(new Map([[root.keyId, root.publicKey]]), offered, verify)
}

function enrolmentOf(options: EnrolOptions): EnrolRequest {
  const request = {
    joinToken: options.joinToken.trim(),
    publicKey: options.key.publicKey,
    recipient: options.recipient,
    version: PRODUCT_VERSION,
    hostname: options.hostname,
  }
  return { ...request, signature: options.key.sign(signingBytes('agent-enrol/1', request)) }
}

/** Waits out a server that is away; an answer that says no is final. */
async function ask(options: EnrolOptions, path: 'prove' | 'enrol', body: object): Promise<unknown> {
  const url = new URL(`agent/v1/${path}`, withSlash(options.serverUrl))
  for (let attempt = 0; ; attempt++) {
    if (options.signal.aborted) throw away(url, options.signal.reason)
    let problem: string
    try {
      const answer = await postJson(url, body, { proxy: options.proxy })
      if (answer.status === 200 || answer.status === 201) return answer.body
      if (isFinal(answer.status)) throw refused(answer)
      problem = `it answered ${answer.status}`
    } catch (error) {
      if (error instanceof AgentError) throw error
      problem = messageOf(error)
    }
    const delay = fullJitter(attempt, options.random(), 250, 8000)
    options.log.warn({ url: url.href, problem, retryInMs: delay }, 'server not reached for enrolment')
    await pause(delay, options.signal)
  }
}

function isFinal(status: number): boolean {
  return [400, 401, 403, 409, 410, 413, 422].includes(status)
}

export function withSlash(url: string): string {
  return url.endsWith('/') ? url : `${url}/`
}

function refused(answer: JsonAnswer): AgentError {
  const error = (answer.body as { error?: { message?: unknown } } | null | undefined)?.error
  const said = typeof error?.message === 'string' ? error.message.slice(0, 300) : `status ${answer.status}`
  return new AgentError(
    'enrol_refused',
    `The server refused the enrolment: ${said}`,
    'A join token works once and for a short time: make a new one and start the agent with it.',
  )
}

function notProven(why: string): AgentError {
  return new AgentError(
    'server_not_proven',
    `The server did not prove the key that the join token names: ${why}.`,
    'Check that --server is the address of the server that made the token, and that nothing stands between.',
  )
}

function away(url: URL, cause: unknown): AgentError {
  return new AgentError('server_unreachable', `Stopped before ${url.origin} was reached.`, 'Start again.', {
    cause,
  })
}
