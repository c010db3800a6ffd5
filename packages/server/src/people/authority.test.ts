import { USER_ROLES, type UserRole } from '@tenon/core'
import { SUBJECTS, type Subject } from '@tenon/protocol'
import { describe, expect, it } from 'vitest'
import { authorize, authorizeElevated, mayCall, type Right } from './authority.ts'

const callerWith = (role: UserRole) => ({
  principal: { id: 'prn_1', kind: 'user' as const, name: 'anna' },
  tokenId: 'tok_1',
  tokenName: 'laptop',
  grant: { role, scope: 'all' as const },
})
const SOME = Object.keys(SUBJECTS) as Subject[]

describe('a route', () => {
  it('is for the roles that its permission names, on every kind of subject', () => {
    const roles = (permission: Right['permission'], subject: Subject): UserRole[] =>
      USER_ROLES.filter((role) => mayCall(callerWith(role), { permission, subject }))
    for (const subject of SOME) {
      expect(roles('read', subject)).toEqual(['owner', 'operator', 'viewer'])
      expect(roles('operate', subject)).toEqual(['owner', 'operator'])
      expect(roles('administer', subject)).toEqual(['owner'])
    }
  })

  it('takes more where it says so, and is for nobody where it says nothing', () => {
    const elevated = { permission: 'administer', when: 'it replaces an agent' } as const
    const may = (role: UserRole, route: Parameters<typeof authorizeElevated>[1]) => {
      try {
        authorizeElevated(callerWith(role), route)
        return true
      } catch {
        return false
      }
    }
    expect(USER_ROLES.filter((role) => may(role, { subject: 'install:ref', elevated }))).toEqual(['owner'])
    expect(USER_ROLES.filter((role) => may(role, { subject: 'install:ref' }))).toEqual([])
  })

  it.each([
    ['without a subject', { permission: 'read' }],
    ['about what nobody knows', { permission: 'read', subject: 'tenants' }],
    ['about a name that every object has', { permission: 'read', subject: 'constructor' }],
    ['without a permission', { subject: 'none' }],
    ['with a permission that no role has', { permission: 'everything', subject: 'none' }],
  ])('%s is for nobody, and an owner is told so', (_, right) => {
    expect(mayCall(callerWith('owner'), right as Right)).toBe(false)
    expect(() => authorize(callerWith('owner'), right as Right)).toThrow(
      expect.objectContaining({ code: 'forbidden' }),
    )
  })
})
