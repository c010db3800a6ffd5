import {
  hasLoneSurrogate,
  isExactBase64,
  signingBytes,
  type Sha256,
  type Sign,
  type SigningContext,
  type Verify,
} from './canonical.ts'

/**
 * How everything signed travels: `text` is what was signed, byte for byte, and is parsed only after it was verified. So a
 * reader may ignore fields that it does not know, and still check the signature over them.
 */
export interface SignedDocument {
  text: string
  keyId: string
  signature: string
}

export function signDocument(
  context: SigningContext,
  value: object,
  keyId: string,
  sign: Sign,
): SignedDocument {
  const bytes = signingBytes(context, value)
  return { text: textOf(bytes), keyId, signature: sign(bytes) }
}

/** What a signature over `text` covers. */
export function documentBytes(context: SigningContext, text: string): Uint8Array {
  return new TextEncoder().encode(`tenon/${context}\n${text}`)
}

/** Only what a signer writes itself counts: another spelling of the same signature is none. */
export function isSignedBy(
  context: SigningContext,
  document: SignedDocument,
  publicKey: string,
  verify: Verify,
): boolean {
  return (
    isExactDocument(document) && verify(publicKey, documentBytes(context, document.text), document.signature)
  )
}

export function isExactDocument({ text, signature }: SignedDocument): boolean {
  return isExactBase64(signature) && !hasLoneSurrogate(text)
}

/** Undefined for what is no JSON. */
export function parseDocument(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The digest that names a document: of its canonical JSON, without the signing context. */
export function documentDigest(text: string, sha256: Sha256): string {
  return `sha256:${sha256(new TextEncoder().encode(text))}`
}

function textOf(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes)
  return text.slice(text.indexOf('\n') + 1)
}
