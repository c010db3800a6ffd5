import { describe, expect, it } from 'vitest'
import { can, USER_ROLES, type Permission } from './roles.ts'
import { buildStates, deployStates, installStates, jobStates, runStates, stepStates } from './states.ts'
import type { StateTable } from './transitions.ts'

const tables: [string, StateTable<string>, string, string[]][] = [
  ['job', jobStates as StateTable<string>, 'queued', ['succeeded', 'failed', 'canceled', 'lapsed']],
  ['step', stepStates as StateTable<string>, 'pending', ['succeeded', 'skipped']],
  ['run', runStates as StateTable<string>, 'queued', ['succeeded']],
  ['build', buildStates as StateTable<string>, 'queued', ['succeeded', 'failed', 'canceled']],
  ['deploy', deployStates as StateTable<string>, 'pending', ['skipped', 'succeeded']],
  ['install', installStates as StateTable<string>, 'new', []],
]

describe.each(tables)('the states of a %s', (_, table, first, ends) => {
  const waysOut = (from: string) => table.states.filter((to) => table.can(from, to))

  it('have exactly these ends, and no way out of an end', () => {
    expect(table.states.filter((s) => table.isEnd(s))).toEqual(ends)
    for (const end of ends) expect(waysOut(end)).toEqual([])
  })

  it('can all be reached from the first one', () => {
    const reached = new Set([first])
    for (const state of reached) for (const to of waysOut(state)) reached.add(to)
    expect([...reached].toSorted()).toEqual(table.states.toSorted())
  })

  it('never go to themselves, nor to or from a word that is no state', () => {
    for (const state of table.states) {
      expect(table.can(state, state)).toBe(false)
      for (const odd of ['', 'unknown', 'constructor', '__proto__', 'length']) {
        expect(table.can(state, odd)).toBe(false)
        expect(table.can(odd, state)).toBe(false)
        expect(table.isEnd(odd)).toBe(false)
      }
    }
  })
})

describe('the roles of users', () => {
  it('each may all that the one below may, and an unclear one nothing', () => {
    const permissions: Permission[] = ['read', 'operate', 'administer']
    const counts = USER_ROLES.map((role) => permissions.filter((p) => can(role, p)).length)
    expect(counts).toEqual([3, 2, 1])
    for (const role of USER_ROLES) expect(can(role, 'read')).toBe(true)
    expect(can('viewer', 'operate')).toBe(false)
    expect(can('operator', 'administer')).toBe(false)
  })
})
