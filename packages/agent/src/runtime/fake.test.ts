import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { assert, boolean, nat, property, record, string, tuple } from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { describeRuntimeContract } from './contract.testing.ts'
import type { ContractPrograms } from './contract.testing.ts'
import { fakeBehaviourSchema, fakeEnd, fakeLog } from './fake/life.ts'
import type { FakeBehaviourInput } from './fake/life.ts'
import { createFakeMemory } from './fake/store.ts'
import { createFakeRuntime } from './fake.ts'
import type { FakeRuntime } from './fake.ts'
import type { JobSpec } from './runtime.ts'

const never = new AbortController().signal
const scratch = await mkdtemp(path.join(tmpdir(), 'tenon-fake-'))
afterAll(() => rm(scratch, { recursive: true, force: true }))

const programs: ContractPrograms = {
  exit: (exitCode) => fake({ exitCode }),
  print: (lines, slowly) => fake({ lines, intervalMs: slowly ? 100 : 0 }),
  hold: () => fake({ untilReleased: true }),
  stopWell: () => fake({ untilReleased: true, text: 'up\n', stopText: 'stopping\n' }),
  ignoreStop: () => fake({ untilReleased: true, text: 'up\n', ignoresStop: true }),
  failToStart: () => fake({ startFailure: 'start' }),
  exceedMemory: () => fake({ durationMs: 20, reason: 'oom' }),
}

describeContract('durable fake', () => createFakeRuntime({ dir: path.join(scratch, 'jobs') }))
const memory = createFakeMemory()
describeContract('in-memory fake', () => createFakeRuntime({ memory }))

function describeContract(name: string, open: () => FakeRuntime): void {
  describeRuntimeContract(name, async () => ({
    open,
    programs,
    isConfined: false,
    kill: async (jobId) => open().kill(jobId),
    traces: async (jobId) => ((await open().attach(jobId)) === undefined ? [] : [jobId]),
    close: async () => undefined,
  }))
}

describe('a fake job', () => {
  it('holds until it is released by a call', async () => {
    const runtime = createFakeRuntime()
    await runtime.start(spec('a', { untilReleased: true, exitCode: 4 }))
    const ending = runtime.wait('a', never)
    runtime.release('a')
    expect(await ending).toMatchObject({ reason: 'exit', exitCode: 4 })
  })

  it('holds until it is released by a file', async () => {
    const runtime = createFakeRuntime({ dir: path.join(scratch, 'released') })
    const file = path.join(scratch, 'go')
    await runtime.start(spec('a', { untilReleased: file }))
    const ending = runtime.wait('a', never)
    await writeFile(file, '')
    expect(await ending).toMatchObject({ reason: 'completed' })
  })

  it('fails to start for want of its image, after a slow start', async () => {
    const runtime = createFakeRuntime({ behaviour: () => ({ startFailure: 'image', startDelayMs: 10 }) })
    await expect(runtime.start(spec('a', {}))).rejects.toMatchObject({ reason: 'image' })
    expect(await runtime.list()).toEqual([])
  })

  it('vanishes while it is waited for', async () => {
    const runtime = createFakeRuntime()
    await runtime.start(spec('a', { untilReleased: true, vanishesAfterMs: 10 }))
    expect(await runtime.wait('a', never)).toMatchObject({ reason: 'gone' })
    await runtime.start(spec('b', { untilReleased: true }))
    const ending = runtime.wait('b', never)
    runtime.vanish('b')
    expect(await ending).toMatchObject({ reason: 'gone' })
  })

  it('refuses a behaviour that it does not know', async () => {
    const bad = { ...spec('a', {}), env: { TENON_FAKE: '{"explodes":true}' } }
    await expect(createFakeRuntime().start(bad)).rejects.toMatchObject({ reason: 'start' })
  })

  it('runs by the thousand', async () => {
    const runtime = createFakeRuntime({ behaviour: () => ({ durationMs: 5, bytes: 1000 }) })
    const ids = Array.from({ length: 5_000 }, (_, index) => `job-${index}`)
    const exits = await Promise.all(
      ids.map(async (jobId) => {
        await runtime.start(spec(jobId, {}))
        return runtime.wait(jobId, never)
      }),
    )
    expect(exits.every(({ reason }) => reason === 'completed')).toBe(true)
  })

  it('never takes back what it printed, and prints nothing after its end', () => {
    const behaviours = record({
      text: string(),
      lines: nat(30),
      intervalMs: nat(50),
      bytes: nat(500),
      ignoresStop: boolean(),
      stopText: string(),
    })
    const times = tuple(nat(2_000), nat(2_000), nat(2_000))
    assert(
      property(behaviours, times, (input, [stopAt, one, other]) => {
        const [early, late] = [Math.min(one, other), Math.max(one, other)]
        const running = {
          jobId: 'a',
          fence: 1,
          startedAt: 0,
          timeoutMs: 1_000,
          graceMs: 100,
          behaviour: fakeBehaviourSchema.parse(input),
        }
        const stopped = { ...running, stop: { at: stopAt, graceMs: 100, reason: 'canceled' as const } }
        const state = stopAt < (fakeEnd(running)?.at ?? Infinity) ? stopped : running
        const before = Buffer.from(fakeLog(state, early))
        const after = Buffer.from(fakeLog(state, late))
        expect(after.subarray(0, before.length).equals(before)).toBe(true)
        const end = fakeEnd(state)?.at ?? Infinity
        const more = early >= end ? 0 : after.length - before.length
        expect(after.length).toBe(before.length + more)
      }),
    )
  })
})

function fake(behaviour: FakeBehaviourInput): Partial<JobSpec> {
  return { env: { TENON_FAKE: JSON.stringify(behaviour) } }
}

function spec(jobId: string, behaviour: FakeBehaviourInput): JobSpec {
  return {
    jobId,
    fence: 1,
    command: [],
    files: {},
    mounts: [],
    network: 'internal',
    ownNetwork: { env: {}, isDemanded: true },
    env: { TENON_FAKE: JSON.stringify(behaviour) },
    limits: { memoryBytes: 1, cpus: 1, pids: 1, timeoutSeconds: 60, graceSeconds: 1 },
  }
}
