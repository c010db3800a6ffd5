export const USER_ROLES = ['owner', 'operator', 'viewer'] as const
export type UserRole = (typeof USER_ROLES)[number]

export type Permission = 'read' | 'operate' | 'administer'

/** What a call is about: one app or install or many of them, or the server itself. */
export type SubjectKind = 'none' | 'app' | 'install'

/** Who may act besides agents and the server: a person, or a program of the vendor's. */
export const PRINCIPAL_KINDS = ['user', 'service'] as const
export type PrincipalKind = (typeof PRINCIPAL_KINDS)[number]

/** A role over a scope of apps and installs; the one scope there is holds them all. */
export interface Grant {
  role: UserRole
  scope: 'all'
}

const GRANTS: Record<UserRole, readonly Permission[]> = {
  owner: ['read', 'operate', 'administer'],
  operator: ['read', 'operate'],
  viewer: ['read'],
}

export function can(role: UserRole, permission: Permission): boolean {
  return Object.hasOwn(GRANTS, role) && GRANTS[role].includes(permission)
}

/** Denied unless the role has the permission and the scope holds the subject; what is unknown is denied. */
export function isGranted(grant: Grant, permission: Permission, subject: SubjectKind): boolean {
  return can(grant.role, permission) && holds(grant.scope, subject)
}

function holds(scope: Grant['scope'], subject: SubjectKind): boolean {
  return scope === 'all' && (subject === 'none' || subject === 'app' || subject === 'install')
}
