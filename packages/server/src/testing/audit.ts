import {
  agentKeys,
  agentWordOf,
  emptyHead,
  extendPinnedKeys,
  parseEntry,
  verifyEntries,
  verifyHead,
  verifySignedHead,
  type AuditEntry,
  type SealedEntry,
} from '@tenon/core'
import { sha256, verify } from '../crypto.ts'
import type { TestServer } from './test-server.ts'
import { until } from './until.ts'

/** The entries of a chain over the API, once nothing waits to be sealed. */
export async function entriesOf(
  server: Pick<TestServer, 'client' | 'context'>,
  chain: string,
): Promise<SealedEntry[]> {
  if (chain === 'server') {
    await until('everything sealed', async () => {
      const { rows } = await server.context.pool.query('select 1 from audit_pending limit 1')
      return rows.length === 0
    })
  }
  const entries: SealedEntry[] = []
  for (;;) {
    const afterSeq = entries.at(-1)?.seq ?? 0
    const page = await server.client.call('audit.entries', {
      params: { chain },
      query: { afterSeq, limit: 1000 },
    })
    entries.push(...page.entries)
    if (page.entries.length < 1000) return entries
  }
}

/** What happened to a subject (or at all), in order: `action outcome`. */
export async function auditOf(
  server: Pick<TestServer, 'client' | 'context'>,
  chain: string,
  subject?: string,
): Promise<string[]> {
  const entries = await entriesOf(server, chain)
  return entries
    .map((sealed) => parseEntry(sealed.body) as AuditEntry)
    .filter((entry) => subject === undefined || entry.subject.id === subject)
    .map((entry) => `${entry.action} ${entry.outcome}`)
}

/** Every problem of every chain, found the way a customer would: entries, agents' words, signed heads, the server's keys. */
export async function auditProblems(server: Pick<TestServer, 'client' | 'context'>): Promise<object[]> {
  await entriesOf(server, 'server')
  const { chains, agents } = await server.client.call('audit.chains', {})
  const keysOf = new Map(
    agents.map((a) => [a.agentId, agentKeys(a.agentId, a.publicKey, a.keyChanges, verify)]),
  )
  const { keys } = await server.client.call('server.info', {})
  const root = keys.find((link) => link.signedBy === null)!
  const pinned = extendPinnedKeys(new Map([[root.keyId, root.publicKey]]), keys, verify)
  const isForged = ({ body }: SealedEntry) => {
    const word = agentWordOf(parseEntry(body) as AuditEntry)
    return word && !keysOf.get(word.agentId)?.some((key) => verify(key, word.bytes, word.signature))
  }
  const problems: object[] = []
  for (const head of chains) {
    const entries = await entriesOf(server, head.chain)
    const verified = verifyEntries(emptyHead(head.chain), entries, sha256)
    problems.push(...verified.problems, ...entries.filter(isForged).map(({ body }) => ({ forged: body })))
    const hashAt = (seq: number) => entries[seq - 1]?.hash
    const end = verifyHead(verified.head, head, hashAt)
    const signature = verifySignedHead(head, pinned, verify)
    for (const problem of [end, signature]) if (problem) problems.push(problem)
  }
  return problems
}
