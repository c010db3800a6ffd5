import { expect, test } from 'vitest'
import { queuesOf } from './claim.ts'

const claim = (pool: string, limit: number) => ({
  agentId: 'a',
  sessionId: 's',
  pool,
  lane: 'any' as const,
  features: ['network', 'hold'],
  limit,
})

test('claims of one pool take turns until each has as many turns as it has slots', () => {
  expect(queuesOf([claim('build', 3), claim('build', 1), claim('build', 2)])).toEqual([
    { pool: 'build', lane: 'any', features: 'hold network', claims: [0, 1, 2, 0, 2, 0] },
  ])
})

test('pools do not mix, and a claim for nothing has no turn', () => {
  expect(queuesOf([claim('build', 1), claim('install:x', 2), claim('setup', 0)])).toEqual([
    { pool: 'build', lane: 'any', features: 'hold network', claims: [0] },
    { pool: 'install:x', lane: 'any', features: 'hold network', claims: [1, 1] },
    { pool: 'setup', lane: 'any', features: 'hold network', claims: [] },
  ])
})

test('lanes of one pool do not mix', () => {
  const interactive = { ...claim('build', 1), lane: 'interactive' as const }
  expect(queuesOf([claim('build', 1), interactive])).toEqual([
    { pool: 'build', lane: 'any', features: 'hold network', claims: [0] },
    { pool: 'build', lane: 'interactive', features: 'hold network', claims: [1] },
  ])
})

test('agents that can do the same take turns, those that can do less apart', () => {
  const less = { ...claim('build', 1), features: [] }
  expect(
    queuesOf([claim('build', 1), less, { ...claim('build', 1), features: ['hold', 'network'] }]),
  ).toEqual([
    { pool: 'build', lane: 'any', features: 'hold network', claims: [0, 2] },
    { pool: 'build', lane: 'any', features: '', claims: [1] },
  ])
})
