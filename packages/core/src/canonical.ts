import serialize from 'canonicalize'

/** Hash and signature functions are passed in: `node:crypto` in server, agent and CLI, WebCrypto in the dashboard. */
export type Sha256 = (bytes: Uint8Array) => string
export type Verify = (publicKey: string, bytes: Uint8Array, signature: string) => boolean
export type Sign = (bytes: Uint8Array) => string

const encoder = new TextEncoder()

/** RFC 8785 canonical JSON. The same value always gives the same text, so a hash or signature over it is stable. */
export function canonicalText(value: unknown): string {
  const text = nativeText(value) ?? serialize(value)
  if (text === undefined) throw new TypeError('only JSON values have a canonical form')
  return text
}

/** The engine writes the same text several times faster, when keys are put in order and nothing odd is in the value. */
function nativeText(value: unknown): string | undefined {
  const seen = { odd: false }
  const text = JSON.stringify(inOrder(value, seen)) as string | undefined
  return seen.odd || text === undefined || MAYBE_LONE_SURROGATE.test(text) ? undefined : text
}

const MAYBE_LONE_SURROGATE = /\\ud[89a-f]/

function inOrder(value: unknown, seen: { odd: boolean }): unknown {
  if (typeof value === 'number') seen.odd ||= !Number.isFinite(value)
  if (typeof value !== 'object' || value === null || seen.odd) return seen.odd ? null : value
  if (Array.isArray(value)) return value.map((one) => inOrder(one, seen))
  const from = value as { [key: string]: unknown }
  const ordered: { [key: string]: unknown } = {}
  for (const key of Object.keys(from).sort()) {
    seen.odd ||= isOddKey(key)
    ordered[key] = inOrder(from[key], seen)
  }
  seen.odd ||= typeof from['toJSON'] === 'function'
  return ordered
}

/** Engines keep numbers in an order of their own, whatever order they were set in. */
function isOddKey(key: string): boolean {
  const first = key.charCodeAt(0)
  return (first >= 48 && first <= 57) || key === '__proto__'
}

export function canonicalBytes(value: unknown): Uint8Array {
  return encoder.encode(canonicalText(value))
}

/** Text with half a surrogate pair shares its bytes with other text, so no hash or signature over it counts. */
export function hasLoneSurrogate(text: string): boolean {
  return /\p{Surrogate}/u.test(text)
}

/** Decoders are lenient about padding and unused bits; this one form alone is what a signer writes. */
export function isExactBase64(text: string): boolean {
  try {
    return btoa(atob(text)) === text
  } catch {
    return false
  }
}

/** `context` keeps a signature made for one purpose from being used for another. */
export function signingBytes(context: SigningContext, value: unknown): Uint8Array {
  return encoder.encode(`tenon/${context}\n${canonicalText(value)}`)
}

export type SigningContext =
  | 'job-manifest/1'
  | 'standing-manifest/1'
  | 'server-challenge/1'
  | 'server-challenge/2'
  | 'agent-hello/2'
  | 'agent-verdict/1'
  | 'job-start/1'
  | 'server-proof/1'
  | 'server-enrolled/1'
  | 'agent-enrol/1'
  | 'join-token/1'
  | 'agent-key/1'
  | 'agent-key-accepted/1'
  | 'agent-recipient/1'
  | 'job-report/1'
  | 'agent-event/1'
  | 'server-key/1'
  | 'server-key-end/1'
  | 'audit-head/1'
