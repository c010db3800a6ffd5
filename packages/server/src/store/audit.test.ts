import { emptyHead, sealEntry, type AuditFact, type AuditHead } from '@tenon/core'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sealServerChain } from '../audit/seal.ts'
import { sha256 } from '../crypto.ts'
import { auditProblems, entriesOf } from '../testing/audit.ts'
import { startTestTenant, type TestTenant } from '../testing/test-server.ts'
import { transact, transactWithHeads } from './transaction.ts'

let tenant: TestTenant
beforeAll(async () => {
  tenant = await startTestTenant()
})
afterAll(() => tenant.stop())

const fact = (action: string, details: AuditFact['details'] = {}): AuditFact => ({
  actor: { type: 'server', id: 'test' },
  action,
  subject: { type: 'test', id: 'test' },
  outcome: 'ok',
  manifestDigest: null,
  details,
})

/** What can be in an entry: every text but the zero character and half pairs, which no schema lets in. */
const text = fc.string({ unit: 'grapheme-composite', maxLength: 30 }).filter((t) => !t.includes('\0'))
const facts: fc.Arbitrary<AuditFact> = fc.record({
  actor: fc.record({ type: fc.constantFrom('user' as const, 'agent' as const, 'server' as const), id: text }),
  action: text,
  subject: fc.record({ type: text, id: text }),
  outcome: fc.constantFrom('ok' as const, 'refused' as const, 'failed' as const),
  manifestDigest: fc.option(text),
  details: fc.dictionary(
    text,
    fc.oneof(
      text,
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constant(null),
      fc.array(text, { maxLength: 3 }),
    ),
  ),
})

describe('a chain in the database', () => {
  it('has the same bytes as the core would seal', async () => {
    let chainNumber = 0
    await fc.assert(
      fc.asyncProperty(fc.array(facts, { minLength: 1, maxLength: 5 }), async (some) => {
        const chain = `chain-${++chainNumber}`
        let at = ''
        const { heads } = await transactWithHeads(tenant.context, async (tx) => {
          at = tx.at
          for (const each of some) tx.auditWord(chain, each)
        })
        let head: AuditHead = emptyHead(chain)
        const expected = some.map((each) => {
          const sealed = sealEntry(head, each, at, sha256)
          head = { chain, seq: sealed.seq, hash: sealed.hash }
          return sealed
        })
        expect(await entriesOf(tenant, chain)).toEqual(expected)
        expect(heads.get(chain)).toEqual(head)
      }),
      { numRuns: 60 },
    )
  })

  it('grows only with the change it tells of', async () => {
    const change = transact(tenant.context, async (tx) => {
      tx.auditWord('undone', fact('never'))
      tx.auditWord('server', fact('never'))
      throw new Error('no')
    })
    await expect(change).rejects.toThrow('no')
    const { rows } = await tenant.context.pool.query(
      `select 1 from audit_entry where body like '%"never"%' union all select 1 from audit_pending where before like '%"never"%'`,
    )
    expect(rows).toEqual([])
  })

  it('keeps its order under many writers at once', async () => {
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        transact(tenant.context, async (tx) => {
          tx.auditWord('busy', fact('written', { n }))
          tx.auditWord('other', fact('written', { n }))
        }),
      ),
    )
    expect((await entriesOf(tenant, 'busy')).map((e) => e.seq)).toEqual(
      Array.from({ length: 40 }, (_, n) => n + 1),
    )
    expect(await auditProblems(tenant)).toEqual([])
  })

  it('of the server is sealed in order by two processes at once', async () => {
    const other = await tenant.another()
    for (let n = 0; n < 200; n++)
      await transact(n % 2 ? tenant.context : other.context, async (tx) =>
        tx.auditWord('server', fact('counted', { n })),
      )
    await Promise.all(
      Array.from({ length: 10 }, (_, n) => sealServerChain(n % 2 ? tenant.context : other.context)),
    )
    const entries = await entriesOf(tenant, 'server')
    const counted = entries
      .map((e) => JSON.parse(e.body) as { action: string; details: { n: number } })
      .filter((e) => e.action === 'counted')
      .map((e) => e.details.n)
    expect(counted).toEqual(Array.from({ length: 200 }, (_, n) => n))
    expect(await auditProblems(tenant)).toEqual([])
    await other.stop()
  })

  it('shows an entry that somebody changed in the table', async () => {
    await transact(tenant.context, async (tx) => tx.auditWord('changed', fact('true')))
    await tenant.context.pool.query(
      `update audit_entry set body = replace(body, '"true"', '"lies"') where chain = 'changed'`,
    )
    expect(await auditProblems(tenant)).toMatchObject([{ code: 'changed' }])
    await tenant.context.pool.query(`delete from audit_entry where chain = 'changed'`)
    await tenant.context.pool.query(`delete from audit_head where chain = 'changed'`)
  })
})
