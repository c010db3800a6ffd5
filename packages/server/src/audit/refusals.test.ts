import { parseEntry, type AuditEntry } from '@tenon/core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { generateSigningKey } from '../crypto.ts'
import { entriesOf } from '../testing/audit.ts'
import {
  connectAgent,
  enrolRequestOf,
  enrolTestAgent,
  openWire,
  postEnrol,
  shakeHands,
} from '../testing/test-agent.ts'
import { startTestTenant, type TestServer, type TestTenant } from '../testing/test-server.ts'
import { createRefusals, SAMPLE_MS } from './refusals.ts'

describe('a kind of refusal', () => {
  it('is written once and then counted, until its minute is over and the count is written', () => {
    const refusals = createRefusals()
    const admit = (nowMs: number, code = 'a') =>
      refusals.admit({}, 'server', 'agent.bad_signature', code, nowMs)
    expect([admit(0), admit(1), admit(2), admit(3, 'b')]).toEqual([true, false, false, true])
    expect(refusals.due(SAMPLE_MS - 1, false)).toEqual([])
    const due = refusals.due(SAMPLE_MS, false)
    expect(due).toMatchObject([{ code: 'a', count: 2, fromMs: 0, untilMs: 2 }])
    // It came while the count was being written.
    expect(admit(SAMPLE_MS + 1)).toBe(false)
    refusals.written(due, SAMPLE_MS + 2)
    expect(refusals.due(SAMPLE_MS + 3, false)).toEqual([])
    expect(refusals.due(2 * SAMPLE_MS + 2, false)).toMatchObject([{ count: 1 }])
  })

  it('is still written when the change that writes it is made a second time', () => {
    const refusals = createRefusals()
    const [first, second] = [{}, {}]
    const admit = (request: object) => refusals.admit(request, 'server', 'agent.bad_signature', 'a', 0)
    expect([admit(first), admit(first), admit(second), admit(second), admit(first)]).toEqual([
      true,
      true,
      false,
      false,
      true,
    ])
    expect(refusals.due(SAMPLE_MS, false)).toMatchObject([{ count: 1 }])
  })

  it('that does not come again is forgotten', () => {
    const refusals = createRefusals()
    refusals.admit({}, 'server', 'agent.bad_signature', 'a', 0)
    expect(refusals.due(SAMPLE_MS, true)).toEqual([])
    expect(refusals.admit({}, 'server', 'agent.bad_signature', 'a', SAMPLE_MS + 1)).toBe(true)
  })
})

describe('strangers who ask without end', () => {
  let tenant: TestTenant
  let flooded: TestServer
  beforeAll(async () => {
    tenant = await startTestTenant()
    flooded = await tenant.another()
  })
  afterAll(() => tenant.stop())
  afterEach(() => tenant.assertSound())

  const FLOOD = 300

  const rowsOf = async () => {
    const { rows } = await tenant.context.pool.query<{ n: number }>(
      'select (select count(*) from audit_entry) + (select count(*) from audit_pending) as n',
    )
    return rows[0]!.n
  }
  const refusedOf = async (action: string) => {
    const entries = (await entriesOf(tenant, 'server')).map(({ body }) => parseEntry(body) as AuditEntry)
    return entries.filter((entry) => entry.action === action)
  }

  it('write few rows, each of which counts', async () => {
    const { joinToken } = await tenant.client.call('agents.joinToken', { body: { role: 'setup' } })
    const guess = (n: number) => [
      `nonsense ${n}`,
      joinToken.replace(/\.[^.]+(\.[^.]+)$/, `.${String(n).padStart(43, 'A')}$1`),
      joinToken.replace(/jtk_\w+/, `jtk_${String(n).padStart(26, '0')}`),
    ]
    const identity = await enrolTestAgent(
      tenant.url,
      (await tenant.client.call('agents.joinToken', { body: { role: 'setup' } })).joinToken,
    )
    const before = await rowsOf()
    for (let n = 0; n < FLOOD; n += 3)
      await Promise.all(
        guess(n).map((token) => postEnrol(flooded.url, enrolRequestOf(token, generateSigningKey()))),
      )
    for (let n = 0; n < 10; n++) {
      const wire = await openWire(flooded.url)
      await shakeHands(wire, identity, { signWith: generateSigningKey() })
      await wire.close()
    }
    expect((await rowsOf()) - before).toBeLessThanOrEqual(4)
    await flooded.stop()
    const enrol = await refusedOf('agent.enrol_refused')
    expect(enrol.map(({ details }) => details['more'] ?? 1)).toEqual([1, FLOOD - 1])
    const hello = await refusedOf('agent.bad_signature')
    expect(hello.map(({ details }) => details['more'] ?? 1)).toEqual([1, 9])
    await (await connectAgent(tenant.url, identity)).close()
  })
})
