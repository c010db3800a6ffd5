import { createHash, generateKeyPairSync, sign as signBytes, verify as verifyBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  emptyHead,
  headStatement,
  parseEntry,
  sealEntry,
  verifyEntries,
  verifyHead,
  verifySignedHead,
  type AuditFact,
  type AuditHead,
  type SealedEntry,
} from './audit.ts'
import { canonicalText, type Verify } from './canonical.ts'
import type { Json } from './json.ts'

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const AT = '2026-11-15T12:00:00.000Z'

function fact(i: number): AuditFact {
  return {
    actor: { type: 'user', id: `tok_${i}` },
    action: 'deploy.created',
    subject: { type: 'deploy', id: `dep_${i}` },
    outcome: 'ok',
    manifestDigest: null,
    details: { note: `\uFFFD ${i}` },
  }
}

function chainOf(name: string, length: number): { entries: SealedEntry[]; head: AuditHead } {
  let head = emptyHead(name)
  const entries = Array.from({ length }, (_, i) => {
    const entry = sealEntry(head, fact(i), AT, sha256)
    head = { chain: name, seq: entry.seq, hash: entry.hash }
    return entry
  })
  return { entries, head }
}

/** As `tenon audit verify` does: the entries, then the head that somebody kept. */
function problemsOf(entries: SealedEntry[], kept: AuditHead) {
  const { head, problems } = verifyEntries(emptyHead('ins_1'), entries, sha256)
  const end = verifyHead(head, kept, (seq) => entries.find((e) => e.seq === seq)?.hash)
  return end ? [...problems, end] : problems
}

const LENGTH = 8
const { entries, head } = chainOf('ins_1', LENGTH)
const position = fc.nat(LENGTH - 1)

describe('an audit chain', () => {
  it('verifies as it was written, whole or in pages, and against every head that was kept on the way', () => {
    for (let cut = 0; cut <= LENGTH; cut++) {
      const first = verifyEntries(emptyHead('ins_1'), entries.slice(0, cut), sha256)
      const second = verifyEntries(first.head, entries.slice(cut), sha256)
      expect([...first.problems, ...second.problems]).toEqual([])
      expect(second.head).toEqual(head)
      expect(problemsOf(entries, first.head)).toEqual([])
    }
    expect(parseEntry(entries[3]!.body)).toMatchObject({ ...fact(3), seq: 4, prev: entries[2]!.hash })
  })

  it('is canonical JSON, entry by entry, whatever the facts are', () => {
    const anyFact = fc.record({
      actor: fc.record({ type: fc.constantFrom('user' as const, 'agent' as const), id: fc.string() }),
      action: fc.string(),
      subject: fc.record({ type: fc.string(), id: fc.string() }),
      outcome: fc.constantFrom('ok' as const, 'refused' as const),
      manifestDigest: fc.option(fc.string()),
      details: fc.dictionary(fc.string(), fc.jsonValue() as fc.Arbitrary<Json>),
    })
    fc.assert(
      fc.property(anyFact, (any) => {
        const { body } = sealEntry(head, any, AT, sha256)
        expect(canonicalText(JSON.parse(body))).toBe(body)
        expect(parseEntry(body)).toMatchObject({ seq: LENGTH + 1, prev: head.hash, chain: 'ins_1', at: AT })
      }),
    )
  })

  it('shows any changed character, and names the entry', () => {
    fc.assert(
      fc.property(
        position,
        fc.constantFrom('body' as const, 'hash' as const),
        fc.nat(),
        fc.nat(0xffff),
        (i, field, where, code) => {
          const value = entries[i]![field]
          const at = where % value.length
          const changed = value.slice(0, at) + String.fromCharCode(code) + value.slice(at + 1)
          fc.pre(changed !== value)
          const bad = entries.with(i, { ...entries[i]!, [field]: changed })
          expect(problemsOf(bad, head)[0]).toMatchObject({ seq: i + 1, code: 'changed' })
        },
      ),
      { numRuns: 500 },
    )
    const body = entries[2]!.body.replace('\uFFFD', '\uD800')
    expect(problemsOf(entries.with(2, { ...entries[2]!, body }), head)[0]).toMatchObject({ seq: 3 })
  })

  it('shows a changed entry with a new hash of its own by the entry after it, or by the kept head', () => {
    fc.assert(
      fc.property(position, (i) => {
        const body = canonicalText({ ...parseEntry(entries[i]!.body)!, outcome: 'refused' })
        const bad = entries.with(i, { ...entries[i]!, body, hash: sha256(Buffer.from(body)) })
        const last = i === LENGTH - 1
        expect(problemsOf(bad, head)[0]).toMatchObject(
          last ? { seq: LENGTH, code: 'changed' } : { seq: i + 2, code: 'broken_link' },
        )
      }),
    )
  })

  it('shows a whole tail that was written anew', () => {
    fc.assert(
      fc.property(position, (i) => {
        let at: AuditHead = i === 0 ? emptyHead('ins_1') : { chain: 'ins_1', ...entries[i - 1]! }
        const rewritten = entries.slice(i).map((_, n) => {
          const entry = sealEntry(at, { ...fact(i + n), action: 'nothing.happened' }, AT, sha256)
          at = { chain: 'ins_1', seq: entry.seq, hash: entry.hash }
          return entry
        })
        const bad = [...entries.slice(0, i), ...rewritten]
        expect(problemsOf(bad, head)).toMatchObject([{ seq: LENGTH, code: 'changed' }])
      }),
    )
  })

  it('shows removed entries, and names the first that is missing', () => {
    fc.assert(
      fc.property(fc.subarray([...entries.keys()], { minLength: 1 }), (gone) => {
        const bad = entries.filter((_, i) => !gone.includes(i))
        const [first] = problemsOf(bad, head)
        const tail = gone.every((i) => i >= bad.length)
        expect(first).toMatchObject({ seq: gone[0]! + 1, code: tail ? 'cut_off' : 'missing' })
      }),
    )
  })

  it('shows entries that were swapped', () => {
    fc.assert(
      fc.property(position, position, (i, j) => {
        fc.pre(i < j)
        const bad = entries.with(i, entries[j]!).with(j, entries[i]!)
        expect(problemsOf(bad, head)[0]).toMatchObject({ seq: i + 1, code: 'missing' })
        const renumbered = entries
          .with(i, { ...entries[j]!, seq: i + 1 })
          .with(j, { ...entries[i]!, seq: j + 1 })
        expect(problemsOf(renumbered, head)[0]).toMatchObject({ seq: i + 1, code: 'malformed' })
      }),
    )
  })

  it('shows an entry that was put in between, at the end, or taken from another chain', () => {
    fc.assert(
      fc.property(position, (i) => {
        const before: AuditHead = i === 0 ? emptyHead('ins_1') : { chain: 'ins_1', ...entries[i - 1]! }
        const added = sealEntry(before, fact(99), AT, sha256)
        const bad = [...entries.slice(0, i), added, ...entries.slice(i)]
        expect(problemsOf(bad, head)[0]).toMatchObject({ seq: i + 2, code: 'missing' })
        const foreign = entries.with(i, chainOf('ins_2', LENGTH).entries[i]!)
        expect(problemsOf(foreign, head)[0]).toMatchObject({ seq: i + 1, code: 'wrong_chain' })
      }),
    )
  })

  it('shows what is hashed but no entry', () => {
    for (const body of ['null', '7', 'rubbish', '{}', '{"seq":"1"}']) {
      const bad = [{ seq: 1, body, hash: sha256(Buffer.from(body)) }]
      expect(verifyEntries(emptyHead('ins_1'), bad, sha256).problems).toMatchObject([{ code: 'malformed' }])
    }
  })
})

describe('a signed head', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const keys = new Map([['key_1', publicKey.export({ type: 'spki', format: 'pem' }) as string]])
  const verify: Verify = (key, bytes, signature) =>
    verifyBytes(null, bytes, key, Buffer.from(signature, 'base64'))
  const statement = headStatement({ ...head, at: AT })
  const signed = {
    ...head,
    at: AT,
    keyId: 'key_1',
    signature: signBytes(null, statement, privateKey).toString('base64'),
  }

  it('holds for exactly what was signed, by a known key', () => {
    expect(verifySignedHead(signed, keys, verify)).toBeUndefined()
    const changes = [{ seq: 7 }, { hash: 'x' }, { chain: 'server' }, { at: 'later' }, { keyId: 'key_2' }]
    for (const change of changes) {
      expect(verifySignedHead({ ...signed, ...change }, keys, verify)).toMatchObject({
        code: 'bad_head_signature',
      })
    }
  })
})
