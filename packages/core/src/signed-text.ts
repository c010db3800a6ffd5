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

/** As it travels where the reader knows which key to check it with. */
export type SignedText = Omit<SignedDocument, 'keyId'> & { keyId?: string | undefined }

export function signText(context: SigningContext, value: object, sign: Sign): SignedText {
  const { text, signature } = signDocument(context, value, '', sign)
  return { text, signature }
}

/** The signed value, for a schema to read; undefined when that key did not sign this text in this context. */
export function openSignedText(
  context: SigningContext,
  document: SignedText,
  publicKey: string,
  verify: Verify,
): unknown {
  return isSignedBy(context, document, publicKey, verify) ? parseDocument(document.text) : undefined
}

/** What a signature over `text` covers. */
export function documentBytes(context: SigningContext, text: string): Uint8Array {
  return new TextEncoder().encode(`tenon/${context}\n${text}`)
}

/** Only what a signer writes itself counts: another spelling of the same signature is none. */
export function isSignedBy(
  context: SigningContext,
  document: SignedText,
  publicKey: string,
  verify: Verify,
): boolean {
  return (
    isExactDocument(document) && verify(publicKey, documentBytes(context, document.text), document.signature)
  )
}

export function isExactDocument({ text, signature }: SignedText): boolean {
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
