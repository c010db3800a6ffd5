import {
  emptyHead,
  headStatement,
  keyStatement,
  sealEntry,
  signDocument,
  signingBytes,
  signKeyEnd,
  type AuditFact,
  type AuditHead,
  type KeyLink,
  type SealedEntry,
  type SignedHead,
} from '@tenon/core'
import { generateKeyPairSync, sign as signBytes, type KeyObject } from 'node:crypto'
import { sha256 } from '../crypto.ts'
import { AT, DIGEST, testId } from './values.ts'

export interface Signer {
  publicKey: string
  sign(bytes: Uint8Array): string
}

export function createSigner(): Signer {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return {
    publicKey: spki(publicKey),
    sign: (bytes) => signBytes(null, bytes, privateKey).toString('base64'),
  }
}

function spki(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).toString('base64')
}

/** A chain as the server keeps it, with a fact for each entry. */
export function sealChain(chain: string, facts: readonly AuditFact[]): SealedEntry[] {
  let head: AuditHead = emptyHead(chain)
  return facts.map((given) => {
    const sealed = sealEntry(head, given, AT, sha256)
    head = { chain, seq: sealed.seq, hash: sealed.hash }
    return sealed
  })
}

export function signHead(
  chain: string,
  entries: readonly SealedEntry[],
  keyId: string,
  key: Signer,
): SignedHead {
  const last = entries.at(-1)
  const head = { ...(last ? { chain, seq: last.seq, hash: last.hash } : emptyHead(chain)), at: AT }
  return { ...head, keyId, signature: key.sign(headStatement(head)) }
}

export function rootLink(keyId: string, key: Signer): KeyLink {
  return { keyId, publicKey: key.publicKey, signedBy: null, signature: null }
}

export function vouchedLink(keyId: string, key: Signer, by: { keyId: string; key: Signer }): KeyLink {
  const signature = by.key.sign(keyStatement({ keyId, publicKey: key.publicKey }))
  const previousEnd = signKeyEnd({ keyId: by.keyId, by: keyId, at: AT }, key.sign)
  return { keyId, publicKey: key.publicKey, signedBy: by.keyId, signature, previousEnd }
}

export function fact(n: number, changes: Partial<AuditFact> = {}): AuditFact {
  return {
    actor: { type: 'user', id: 'anna' },
    action: 'deploy.created',
    subject: { type: 'run', id: testId('run', n) },
    outcome: 'ok',
    manifestDigest: null,
    details: { n },
    ...changes,
  }
}

/** What an agent said at its start, signed by it. */
export function helloFact(agentId: string, key: Signer): AuditFact {
  const hello = signDocument('agent-hello/2', { agentId, bootCounter: 1, laterField: [] }, '', key.sign)
  return fact(0, {
    actor: { type: 'agent', id: agentId },
    action: 'agent.connected',
    details: { bootCounter: 1, hello: { ...hello } },
  })
}

/** What an agent reported about a job, signed by it. */
export function reportFact(agentId: string, key: Signer): AuditFact {
  const report = {
    jobId: testId('job'),
    fence: 1,
    agentId,
    manifestDigest: DIGEST,
    outcome: 'succeeded',
    reason: 'completed',
    exitCode: 0,
    message: '',
    result: {},
    outputs: {},
    logBytes: 0,
    startedAt: AT,
    finishedAt: AT,
  }
  return fact(0, {
    actor: { type: 'agent', id: agentId },
    action: 'job.finished',
    details: { report, signature: key.sign(signingBytes('job-report/1', report)) },
  })
}
