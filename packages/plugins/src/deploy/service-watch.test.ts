import type { ServiceReplica } from '@tenon/protocol'
import { describe, expect, it } from 'vitest'
import { describeReplica, isLost, missingReplicas, seeAgain, type Seen } from './service-watch.ts'

const replica = (changes: Partial<ServiceReplica> = {}): ServiceReplica => ({
  name: 'web.1.1',
  number: 1,
  state: 'running',
  isRunning: true,
  exitCode: null,
  wasOomKilled: false,
  restarts: 0,
  error: '',
  address: '10.0.0.2',
  ...changes,
})

const seenIn = (...looks: Partial<ServiceReplica>[]) => watched(true, looks)
const watched = (isNew: boolean, looks: Partial<ServiceReplica>[]) => {
  let seen: Seen | undefined
  for (const look of looks) seen = seeAgain(seen, replica(look), isNew)
  return seen!
}

describe('a replica that is watched', () => {
  const crashed = { state: 'restarting', isRunning: false, exitCode: 3 }

  it('may crash twice', () => {
    expect(isLost(seenIn({}, { ...crashed, restarts: 1 }, { ...crashed, restarts: 2 }))).toBe(false)
  })

  it('is lost with its third crash, with the exit code that was last seen', () => {
    const seen = seenIn({ ...crashed, restarts: 2 }, { restarts: 3 })
    expect(isLost(seen)).toBe(true)
    expect(describeReplica(replica({ restarts: 3 }), seen)).toBe(
      'replica 1 is running and crashed 3 times, last with exit code 3',
    )
  })

  it('that ran before is not lost for what it did then', () => {
    expect(isLost(watched(false, [{ restarts: 7 }, { restarts: 8 }, { restarts: 9 }]))).toBe(false)
    const now = [{ restarts: 7 }, { ...crashed, restarts: 10 }]
    expect(isLost(watched(false, now))).toBe(true)
  })

  it('whose exit code no look caught is lost a few looks later', () => {
    const looks = [3, 4, 5, 6].map((restarts) => ({ restarts }))
    expect(isLost(seenIn(...looks))).toBe(false)
    expect(isLost(seenIn(...looks, { restarts: 7 }))).toBe(true)
  })

  it('is lost when it stays down, and well when it comes back', () => {
    const down = { state: 'exited', isRunning: false, exitCode: 0 }
    expect(isLost(seenIn(down, down, down, down, {}))).toBe(false)
    expect(isLost(seenIn(down, down, down, down, down))).toBe(true)
  })

  it.each([
    [{ wasOomKilled: true, exitCode: 137 }, 'exit code 137 (out of memory: it wanted more than its limit)'],
    [{ exitCode: 137 }, 'exit code 137 (killed, as one is that wants more memory than its limit)'],
    [{ exitCode: 1, error: 'no such device' }, 'exit code 1: no such device'],
  ])('is told with the reason of the engine: %o', (changes, words) => {
    expect(describeReplica(replica({ ...changes, state: 'exited', isRunning: false }))).toBe(
      `replica 1 is exited, last with ${words}`,
    )
  })

  it('is missed by its number', () => {
    const generation = { id: 'x', image: 'y', wanted: 3, port: 1, replicas: [replica({ number: 2 })] }
    expect(missingReplicas(generation)).toEqual([1, 3])
  })
})
