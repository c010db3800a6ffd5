import serialize from 'canonicalize'

/** Hash and signature functions are passed in: `node:crypto` in server, agent and CLI, WebCrypto in the dashboard. */
export type Sha256 = (bytes: Uint8Array) => string
export type Verify = (publicKey: string, bytes: Uint8Array, signature: string) => boolean
export type Sign = (bytes: Uint8Array) => string

const encoder = new TextEncoder()

/** RFC 8785 canonical JSON. The same value always gives the same text, so a hash or signature over it is stable. */
export function canonicalText(value: unknown): string {
  const text = serialize(value)
  if (text === undefined) throw new TypeError('only JSON values have a canonical form')
  return text
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
  | 'agent-hello/1'
  | 'agent-enrol/1'
  | 'agent-recipient/1'
  | 'job-report/1'
  | 'agent-event/1'
  | 'server-key/1'
  | 'audit-head/1'
