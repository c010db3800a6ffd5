export const USER_ROLES = ['owner', 'operator', 'viewer'] as const
export type UserRole = (typeof USER_ROLES)[number]

export type Permission = 'read' | 'operate' | 'administer'

const GRANTS: Record<UserRole, readonly Permission[]> = {
  owner: ['read', 'operate', 'administer'],
  operator: ['read', 'operate'],
  viewer: ['read'],
}

export function can(role: UserRole, permission: Permission): boolean {
  return GRANTS[role].includes(permission)
}
