import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  after,
  backoffMs,
  describeExit,
  FAILED_PROBES_TO_UNHEALTHY,
  STABLE_AFTER_MS,
  unborn,
} from './unit-status.ts'
import type { Vitals, VitalsEvent } from './unit-status.ts'

const launched: VitalsEvent = { kind: 'launched', pid: 7, version: 'v' }
const crash: VitalsEvent = { kind: 'exited', code: 1, signal: null, error: null, again: true }
const failed: VitalsEvent = { kind: 'probe_failed', error: 'status 500' }

function run(events: VitalsEvent[], stepMs = 1): Vitals {
  return events.reduce((vitals, event, i) => after(vitals, event, (i + 1) * stepMs), unborn(0))
}

describe('the wait before a restart', () => {
  it('grows with every crash, never past a minute, and is never nothing', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (n, chance) => {
          const wait = backoffMs(n, () => chance)
          expect(wait).toBeGreaterThanOrEqual(250)
          expect(wait).toBeLessThanOrEqual(60_000)
          expect(backoffMs(n + 1, () => chance)).toBeGreaterThanOrEqual(wait)
        },
      ),
    )
  })
})

describe('what is known of a process', () => {
  it('stays starting, however many probes fail, until one passes', () => {
    expect(run([launched, failed, failed, failed, failed])).toMatchObject({ state: 'starting' })
  })

  it('turns unhealthy only after several failures in a row', () => {
    const failures = Array.from({ length: FAILED_PROBES_TO_UNHEALTHY - 1 }, () => failed)
    const passed: VitalsEvent = { kind: 'probe_passed' }
    expect(run([launched, passed, ...failures]).state).toBe('healthy')
    expect(run([launched, passed, ...failures, passed, ...failures]).state).toBe('healthy')
    expect(run([launched, passed, ...failures, failed]).state).toBe('unhealthy')
  })

  it('counts crashes in a row, and from one again after a long stretch of health', () => {
    expect(run([launched, crash, launched, crash, launched])).toMatchObject({ crashes: 2, restarts: 2 })
    const stable = run([launched, crash, launched, { kind: 'probe_passed' }, crash], STABLE_AFTER_MS)
    expect(stable.crashes).toBe(1)
  })

  it('says in words how the process ended', () => {
    expect(describeExit(run([launched, crash]))).toContain('exit code 1')
    expect(describeExit(run([launched, { ...crash, code: null, signal: 'SIGSEGV' }]))).toContain('SIGSEGV')
    expect(describeExit(run([{ ...crash, code: null, error: 'no folder' }]))).toContain('no folder')
  })

  it('has a pid exactly while a process runs', () => {
    const event = fc.constantFrom<VitalsEvent>(
      launched,
      crash,
      failed,
      { kind: 'probe_passed' },
      { kind: 'stopped' },
    )
    fc.assert(
      fc.property(fc.array(event), (events) => {
        const vitals = run([launched, ...events.filter((one) => !one.kind.startsWith('probe')), launched])
        expect(vitals.pid).toBe(7)
        expect(run([launched, ...events, crash]).pid).toBeNull()
      }),
    )
  })
})
