import { canonicalText, hasLoneSurrogate, signingBytes, type Sha256, type Verify } from './canonical.ts'
import type { Json } from './json.ts'
import type { PrincipalKind } from './roles.ts'

/** One fact. `prev` is the hash of the entry before it in the same chain, so nothing in between can change unseen. */
export interface AuditEntry extends AuditFact {
  chain: string
  seq: number
  at: string
  prev: string
}

export interface AuditFact {
  /** `id` of a user or a service is that of its principal; `token` is the one it came with. */
  actor: { type: PrincipalKind | 'agent' | 'server'; id: string; token?: string }
  action: string
  subject: { type: string; id: string }
  outcome: 'ok' | 'refused' | 'failed'
  manifestDigest: string | null
  details: { [key: string]: Json }
}

/** The server's own chain; every other chain is named by its install. */
export const SERVER_CHAIN = 'server'
export const GENESIS = '0'.repeat(64)

/** What is stored and hashed: the canonical text of the entry. */
export interface SealedEntry {
  seq: number
  body: string
  hash: string
}

export interface AuditHead {
  chain: string
  seq: number
  hash: string
}

/** The server's word on how long a chain is; whoever keeps one sees a tail that was cut off later. */
export interface SignedHead extends AuditHead {
  at: string
  keyId: string
  signature: string
}

export function emptyHead(chain: string): AuditHead {
  return { chain, seq: 0, hash: GENESIS }
}

/** The canonical text of an entry around its place in the chain, so that a database can seal it under its own lock. */
export function entryParts(chain: string, fact: AuditFact, at: string): { before: string; after: string } {
  const { subject, ...rest } = fact
  const before = canonicalText({ ...rest, at, chain })
  return { before: `${before.slice(0, -1)},`, after: `,"subject":${canonicalText(subject)}}` }
}

/** `prev` and `seq` sort right before `subject`: the sealed text is canonical JSON as a whole. */
export function sealEntry(head: AuditHead, fact: AuditFact, at: string, sha256: Sha256): SealedEntry {
  const seq = head.seq + 1
  const { before, after } = entryParts(head.chain, fact, at)
  const body = `${before}"prev":"${head.hash}","seq":${seq}${after}`
  return { seq, body, hash: hashBody(body, sha256) }
}

export function headStatement(head: AuditHead & { at: string }): Uint8Array {
  return signingBytes('audit-head/1', { chain: head.chain, seq: head.seq, hash: head.hash, at: head.at })
}

export type AuditProblem = {
  seq: number
  code: 'missing' | 'changed' | 'broken_link' | 'wrong_chain' | 'malformed' | 'cut_off' | 'bad_head_signature'
  message: string
}

/** Needs only the entries, a head and the public keys. Entries may come in pages: pass `from` as the head of the page before. */
export function verifyEntries(
  from: AuditHead,
  entries: readonly SealedEntry[],
  sha256: Sha256,
): { head: AuditHead; problems: AuditProblem[] } {
  const problems: AuditProblem[] = []
  let head = from
  for (const sealed of entries) {
    const problem = checkEntry(head, sealed, sha256)
    if (problem) problems.push(problem)
    head = { chain: from.chain, seq: sealed.seq, hash: sealed.hash }
  }
  return { head, problems }
}

/** Compares where the entries end with a head that somebody kept or the server signed. */
export function verifyHead(
  end: AuditHead,
  kept: AuditHead,
  hashAt: (seq: number) => string | undefined,
): AuditProblem | undefined {
  if (kept.seq > end.seq) {
    return {
      seq: end.seq + 1,
      code: 'cut_off',
      message: `entries ${end.seq + 1} to ${kept.seq} are missing at the end`,
    }
  }
  if (kept.seq > 0 && hashAt(kept.seq) !== kept.hash) {
    return { seq: kept.seq, code: 'changed', message: `entry ${kept.seq} is not the one whose hash was kept` }
  }
  return undefined
}

export function verifySignedHead(
  head: SignedHead,
  keys: ReadonlyMap<string, string>,
  verify: Verify,
): AuditProblem | undefined {
  const key = keys.get(head.keyId)
  if (key && verify(key, headStatement(head), head.signature)) return undefined
  return {
    seq: head.seq,
    code: 'bad_head_signature',
    message: `the head of the chain is not signed by a known key`,
  }
}

function checkEntry(head: AuditHead, sealed: SealedEntry, sha256: Sha256): AuditProblem | undefined {
  const { seq } = sealed
  if (seq !== head.seq + 1) {
    return {
      seq: head.seq + 1,
      code: 'missing',
      message: `entry ${head.seq + 1} is missing: entry ${seq} follows ${head.seq}`,
    }
  }
  if (hasLoneSurrogate(sealed.body) || hashBody(sealed.body, sha256) !== sealed.hash) {
    return { seq, code: 'changed', message: `entry ${seq} was changed: its content does not have its hash` }
  }
  const entry = parseEntry(sealed.body)
  if (!entry || entry.seq !== seq)
    return { seq, code: 'malformed', message: `entry ${seq} is not an audit entry` }
  if (entry.chain !== head.chain) {
    return { seq, code: 'wrong_chain', message: `entry ${seq} belongs to the chain ${entry.chain}` }
  }
  if (entry.prev !== head.hash) {
    return { seq, code: 'broken_link', message: `entry ${seq} does not follow the entry before it` }
  }
  return undefined
}

export function parseEntry(body: string): AuditEntry | undefined {
  try {
    const value = JSON.parse(body) as AuditEntry
    return typeof value === 'object' && value !== null && typeof value.seq === 'number' ? value : undefined
  } catch {
    return undefined
  }
}

function hashBody(body: string, sha256: Sha256): string {
  return sha256(new TextEncoder().encode(body))
}
