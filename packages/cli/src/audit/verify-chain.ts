import {
  agentWordOf,
  emptyHead,
  parseEntry,
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
  /** All that each agent has had. */
  agents: ReadonlyMap<string, readonly string[]>
}

export type ChainProblem =
  | AuditProblem
  | { seq: number; code: 'bad_agent_signature' | 'unknown_agent'; message: string }

export interface ChainVerdict {
  chain: string
  entries: number
  head: AuditHead
  /** How many entries hold what an agent signed. */
  signed: number
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
  let signed = 0
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
        const word = checkAgentWord(sealed, keys.agents)
        if (word !== 'none') signed++
        if (typeof word === 'object') add(word)
      }
    },
    /** A head that the server signed; it stands at or above the entries given so far. */
    signedHead(given: SignedHead) {
      heads.push(given)
      if (!wanted.has(given.seq)) wanted.set(given.seq, given.seq === head.seq ? head.hash : undefined)
    },
    end(): ChainVerdict {
      for (const given of heads) add(checkSignedHead(chain, given, keys))
      for (const known of [...heads, ...(kept ? [kept] : [])]) {
        const problem = verifyHead(head, known, (seq) => wanted.get(seq))
        if (problem && !problems.some((p) => p.code === problem.code && p.seq === problem.seq)) add(problem)
      }
      return { chain, entries, head, signed, problems }
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
function checkAgentWord(
  sealed: SealedEntry,
  agents: ReadonlyMap<string, readonly string[]>,
): 'none' | 'ok' | ChainProblem {
  const entry = parseEntry(sealed.body)
  const signed = entry && agentWordOf(entry)
  if (!signed) return 'none'
  const { seq } = sealed
  const { agentId, bytes, signature } = signed
  const keys = agents.get(agentId)
  if (keys === undefined) {
    return {
      seq,
      code: 'unknown_agent',
      message: `entry ${seq} holds a word of the unknown agent ${agentId}`,
    }
  }
  if (keys.some((key) => verifyEd25519(key, bytes, signature))) return 'ok'
  return {
    seq,
    code: 'bad_agent_signature',
    message: `entry ${seq} holds what agent ${agentId} did not sign`,
  }
}
