import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign as cryptoSign,
  timingSafeEqual,
  verify as cryptoVerify,
  type KeyObject,
} from 'node:crypto'
import {
  signDocument,
  type Sha256,
  type Sign,
  type SignedDocument,
  type SigningContext,
  type Verify,
} from '@tenon/core'
import { joinTokenSeed } from '@tenon/protocol'

export const sha256: Sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

/** Public keys travel as base64 of DER SPKI, Ed25519 signatures as base64. */
export const verify: Verify = (publicKey, bytes, signature) => {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
    if (key.asymmetricKeyType !== 'ed25519') return false
    return cryptoVerify(null, bytes, key, Buffer.from(signature, 'base64'))
  } catch {
    return false
  }
}

export interface SigningKey {
  publicKey: string
  sign: Sign
  /** PKCS#8, for the file that only the agent can read. */
  toPem(): string
}

export function makeSigningKey(): SigningKey {
  return signingKey(generateKeyPairSync('ed25519').privateKey)
}

export function loadSigningKey(pem: string): SigningKey {
  return signingKey(createPrivateKey(pem))
}

/** How the PKCS#8 of every Ed25519 key begins (RFC 8410); the 32 bytes of the seed follow. */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** The key pair that a join token's secret makes. The secret itself is shown to nobody. */
export function joinTokenKey(secret: string): SigningKey {
  const key = Buffer.concat([PKCS8_PREFIX, Buffer.from(joinTokenSeed(secret, sha256), 'hex')])
  return signingKey(createPrivateKey({ key, format: 'der', type: 'pkcs8' }))
}

/** SHA-256 of the DER bytes: what a join token carries of the server's key. */
export function fingerprint(publicKey: string): string {
  return sha256(Buffer.from(publicKey, 'base64'))
}

/** The agent's word, in the form in which it travels. */
export type SignText = (context: SigningContext, value: object) => SignedDocument

export function signerOf(key: Pick<SigningKey, 'publicKey' | 'sign'>): SignText {
  return (context, value) => signDocument(context, value, fingerprint(key.publicKey), key.sign)
}

export function equalInConstantTime(left: string, right: string): boolean {
  const a = Buffer.from(left)
  const b = Buffer.from(right)
  return a.byteLength === b.byteLength && timingSafeEqual(a, b)
}

function signingKey(key: KeyObject): SigningKey {
  return {
    publicKey: createPublicKey(key).export({ format: 'der', type: 'spki' }).toString('base64'),
    sign: (bytes) => cryptoSign(null, bytes, key).toString('base64'),
    toPem: () => key.export({ format: 'pem', type: 'pkcs8' }).toString(),
  }
}
