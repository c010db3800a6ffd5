import { describe, expect, it } from 'vitest'
import { isGranted, USER_ROLES, type Grant, type Permission, type SubjectKind } from './roles.ts'

const PERMISSIONS: Permission[] = ['read', 'operate', 'administer']
const SUBJECTS: SubjectKind[] = ['none', 'app', 'install']

describe('a grant', () => {
  it.each(SUBJECTS)('allows what its role may, over all that its scope holds: %s', (subject) => {
    const allowed = (role: Grant['role']) =>
      PERMISSIONS.filter((permission) => isGranted({ role, scope: 'all' }, permission, subject))
    expect(USER_ROLES.map(allowed)).toEqual([
      ['read', 'operate', 'administer'],
      ['read', 'operate'],
      ['read'],
    ])
  })

  it('denies what it does not know: a role, a scope, a permission, a subject', () => {
    const owner: Grant = { role: 'owner', scope: 'all' }
    expect(isGranted({ ...owner, role: 'constructor' as never }, 'read', 'none')).toBe(false)
    expect(isGranted({ ...owner, scope: 'some' as never }, 'read', 'none')).toBe(false)
    expect(isGranted(owner, 'fly' as never, 'none')).toBe(false)
    expect(isGranted(owner, 'read', undefined as never)).toBe(false)
  })
})
