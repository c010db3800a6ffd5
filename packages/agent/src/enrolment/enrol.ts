import { randomBytes } from 'node:crypto'
import {
  AGENT_ROLES,
  fullJitter,
  knownOr,
  learnKeys,
  openSignedText,
  signText,
  type KeyLink,
  type KnownKeys,
  type SignedText,
} from '@tenon/core'
import {
  enrolled,
  enrolResponse,
  parseJoinToken,
  proveResponse,
  serverProof,
  PRODUCT_VERSION,
  type Enrolment,
  type EnrolRequest,
  type JoinToken,
} from '@tenon/protocol'
import type { Logger } from 'pino'
import { fingerprint, joinTokenKey, verify, type SigningKey } from '../ground/crypto.ts'
import { AgentError, messageOf } from '../ground/errors.ts'
import { postJson, withSlash, type JsonAnswer } from '../ground/http.ts'
import { pause } from '../ground/pause.ts'
import type { ProxySettings } from '../ground/proxy.ts'
import type { NewIdentity } from './identity.ts'

export interface EnrolOptions {
  serverUrl: string
  joinToken: string
  key: SigningKey
  recipient: string | null
  hostname: string
  proxy: ProxySettings
  log: Logger
  random: () => number
  clock: () => number
  signal: AbortSignal
}

/** Trades the join token for an identity, with a server that proved the key the token names. The secret stays here. */
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
  const tokenKey = joinTokenKey(token.secret)
  const proven = proveResponse.safeParse(await ask(options, 'prove', { tokenId: token.id, nonce }))
  if (!proven.success) throw notProven('its answer does not have the expected form')
  const known = trustedKeys(token, proven.data.keys, options.clock())
  const proof = serverProof.safeParse(opened('server-proof/1', proven.data.proof, known.pinned)).data
  if (!proof) throw notProven('no key that the join token vouches for signed its answer')
  if (proof.nonce !== nonce || proof.tokenId !== token.id || proof.tokenKey !== tokenKey.publicKey)
    throw notProven('its answer is not about this join token and this question')

  const request = enrolmentOf(options, { tokenId: token.id, nonce, tokenKey })
  const answer = enrolResponse.safeParse(await ask(options, 'enrol', request))
  if (!answer.success) throw notProven('its answer to the enrolment does not have the expected form')
  const { pinned, ended } = learnKeys(known, answer.data.keys, verify, options.clock())
  const given = enrolled.safeParse(opened('server-enrolled/1', answer.data.enrolled, pinned)).data
  if (given?.publicKey !== options.key.publicKey || given.nonce !== nonce)
    throw notProven('its answer to the enrolment is not signed for this agent')
  const { agentId, serverId, installId } = given
  const role = knownOr(AGENT_ROLES, given.role)
  if (role === 'other') throw unknownRole(given.role)
  if (serverId !== proof.serverId) throw notProven('its id changed between two answers')
  const [pinnedKeys, endedKeys] = [Object.fromEntries(pinned), Object.fromEntries(ended)]
  return { agentId, serverId, role, installId, pinnedKeys, endedKeys }
}

function opened(
  context: 'server-proof/1' | 'server-enrolled/1',
  document: SignedText,
  keys: ReadonlyMap<string, string>,
): unknown {
  const key = keys.get(document.keyId ?? '')
  return key && openSignedText(context, document, key, verify)
}

/** Pure: the key whose fingerprint the token carries, every key chained to it, and which of them have ended. */
function trustedKeys(token: JoinToken, offered: readonly KeyLink[], nowMs: number): KnownKeys {
  const root = offered.find((link) => fingerprint(link.publicKey) === token.fingerprint)
  const pinned = new Map(root ? [[root.keyId, root.publicKey]] : [])
  return learnKeys({ pinned, ended: new Map() }, offered, verify, nowMs)
}

/** Signed by the agent's key, and over the same text by the token's: whoever passes it on can enrol no other key with it. */
function enrolmentOf(
  { key, recipient, hostname }: EnrolOptions,
  { tokenId, nonce, tokenKey }: { tokenId: string; nonce: string; tokenKey: SigningKey },
): EnrolRequest {
  const { publicKey } = key
  const content: Enrolment = { tokenId, nonce, publicKey, recipient, version: PRODUCT_VERSION, hostname }
  return {
    enrolment: signText('agent-enrol/1', content, key.sign),
    tokenSignature: signText('join-token/1', content, tokenKey.sign).signature,
  }
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

function refused(answer: JsonAnswer): AgentError {
  const error = (answer.body as { error?: { message?: unknown; remedy?: unknown } } | null | undefined)?.error
  const remedy = typeof error?.remedy === 'string' ? error.remedy.slice(0, 500) : NEW_TOKEN
  const said = typeof error?.message === 'string' ? error.message.slice(0, 300) : `status ${answer.status}`
  return new AgentError('enrol_refused', `The server refused the enrolment: ${said}`, remedy)
}

/** The key that enrolled stays on disk, so the same token works again. */
function unknownRole(role: string): AgentError {
  return new AgentError(
    'enrol_refused',
    `The server enrolled this agent in the role ${role}, which its version (${PRODUCT_VERSION}) does not know.`,
    'Update the agent and start it again, in the same folder with the same join token.',
  )
}

const NEW_TOKEN = 'A join token works once and for a short time: make a new one and start the agent with it.'

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
