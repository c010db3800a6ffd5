import {
  emptyHead,
  parseEntry,
  signingBytes,
  verifyEntries,
  verifyHead,
  verifySignedHead,
  type AuditHead,
  type AuditProblem,
  type SealedEntry,
  type SignedHead,
} from '@tenon/core'
import { sha256, verifyEd25519 } from '../crypto.ts'

export interface ChainKeys {
  server: ReadonlyMap<string, string>
  agents: ReadonlyMap<string, string>
}

export type ChainProblem =
  | AuditProblem
  | { seq: number; code: 'bad_report_signature' | 'unknown_agent'; message: string }

export interface ChainVerdict {
  chain: string
  entries: number
  head: AuditHead
  reports: number
  problems: ChainProblem[]
}

/** More would only repeat what the first broken entry already says. */
const MOST_PROBLEMS = 100

/** Takes a chain in pages and says in the end whether it holds; memory does not grow with its length. */
export function createChainVerifier(chain: string, keys: ChainKeys, kept: AuditHead | undefined) {
  const problems: ChainProblem[] = []
  const wanted = new Map<number, string | undefined>(kept ? [[kept.seq, undefined]] : [])
  const heads: SignedHead[] = []
  let head: AuditHead = emptyHead(chain)
  let entries = 0
  let reports = 0
  const add = (problem: ChainProblem | undefined) => {
    if (problem && problems.length < MOST_PROBLEMS) problems.push(problem)
  }
  return {
    push(page: readonly SealedEntry[]) {
      const result = verifyEntries(head, page, sha256)
      head = result.head
      entries += page.length
      result.problems.forEach(add)
      for (const sealed of page) {
        if (wanted.has(sealed.seq)) wanted.set(sealed.seq, sealed.hash)
        const report = checkReport(sealed, keys.agents)
        if (report !== 'none') reports++
        if (typeof report === 'object') add(report)
      }
      wanted.set(head.seq, head.hash)
    },
    /** A head that the server signed, given before the entries it stands above. */
    signedHead(signed: SignedHead) {
      heads.push(signed)
      if (!wanted.has(signed.seq)) wanted.set(signed.seq, undefined)
    },
    end(): ChainVerdict {
      for (const signed of heads) add(checkSignedHead(chain, signed, keys))
      for (const known of [...heads, ...(kept ? [kept] : [])]) {
        const problem = verifyHead(head, known, (seq) => wanted.get(seq))
        if (problem && !problems.some((p) => p.code === problem.code && p.seq === problem.seq)) add(problem)
      }
      return { chain, entries, head, reports, problems }
    },
  }
}

function checkSignedHead(chain: string, signed: SignedHead, keys: ChainKeys): ChainProblem | undefined {
  if (signed.chain !== chain) {
    return { seq: signed.seq, code: 'wrong_chain', message: `the head belongs to the chain ${signed.chain}` }
  }
  return verifySignedHead(signed, keys.server, verifyEd25519)
}

/** What an agent did is signed by the agent: the server cannot have made it up. */
function checkReport(sealed: SealedEntry, agents: ReadonlyMap<string, string>): 'none' | 'ok' | ChainProblem {
  const details: unknown = parseEntry(sealed.body)?.details
  if (!isRecord(details) || !isRecord(details['report'])) return 'none'
  const { report, signature, agentId } = details
  if (typeof signature !== 'string' || typeof agentId !== 'string') return 'none'
  const key = agents.get(agentId)
  const { seq } = sealed
  if (key === undefined) {
    return {
      seq,
      code: 'unknown_agent',
      message: `entry ${seq} holds a report of the unknown agent ${agentId}`,
    }
  }
  const wrong = {
    seq,
    code: 'bad_report_signature',
    message: `entry ${seq} holds a report that agent ${agentId} did not sign`,
  } as const
  if (report['agentId'] !== agentId) return wrong
  return verifyEd25519(key, signingBytes('job-report/1', report), signature) ? 'ok' : wrong
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
