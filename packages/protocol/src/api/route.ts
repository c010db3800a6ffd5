import type { IdKind, Permission, SubjectKind } from '@tenon/core'
import { z } from 'zod'
import { idOf } from '../scalars.ts'

/**
 * What a route is about, and the parameter of its path that leads there. In the plural it is about many: of those an
 * answer shows what the caller's scope holds.
 */
export const SUBJECTS = {
  none: { kind: 'none', param: null },
  apps: { kind: 'app', param: null },
  'app:ref': { kind: 'app', param: 'ref' },
  'app:body': { kind: 'app', param: null },
  'app:build': { kind: 'app', param: 'id' },
  'app:artifact': { kind: 'app', param: 'ref' },
  installs: { kind: 'install', param: null },
  'install:ref': { kind: 'install', param: 'ref' },
  'install:run': { kind: 'install', param: 'id' },
  /** Of the app, where the job is one of a build. */
  'install:job': { kind: 'install', param: 'id' },
  'install:chain': { kind: 'install', param: 'chain' },
  /** Of no install, where it is an agent of the vendor's. */
  'install:agent': { kind: 'install', param: 'id' },
} as const satisfies Record<string, { kind: SubjectKind; param: string | null }>
export type Subject = keyof typeof SUBJECTS

/** One route as data: the server registers it, the client calls it, OpenAPI describes it, and nothing else is reachable. */
export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'
  path: string
  summary: string
  tag: string
  permission: Permission
  /** What it takes besides where the call turns out to do more, which only its handler can tell. */
  elevated?: { permission: Permission; when: string }
  subject: Subject
  params: z.ZodObject
  query: z.ZodObject
  /** `'bytes'`: the raw body is a stream. */
  body: z.ZodType | 'bytes' | null
  /** `'stream'`: the body is raw bytes or server-sent events, `media` says which. */
  response: z.ZodType | 'stream'
  media?: string
}

const none = z.strictObject({})

type Given<R> = Pick<
  Route,
  'method' | 'path' | 'summary' | 'tag' | 'permission' | 'elevated' | 'subject' | 'media'
> &
  R

/** Fills in what a route does not take, keeping the exact types of what it does. */
export function route<
  P extends z.ZodObject = typeof none,
  Q extends z.ZodObject = typeof none,
  B extends z.ZodType | 'bytes' | null = null,
  R extends z.ZodType | 'stream' = 'stream',
>(given: Given<{ params?: P; query?: Q; body?: B; response: R }>) {
  return {
    ...given,
    params: (given.params ?? none) as P,
    query: (given.query ?? none) as Q,
    body: (given.body ?? null) as B,
  }
}

export const byId = (kind: IdKind) => z.strictObject({ id: idOf(kind) })
/** Installs and apps go by their name or their id. */
export const byRef = z.strictObject({ ref: z.string().min(1).max(64) })

export const page = z.strictObject({
  /** The id of the last row of the page before. */
  after: z.string().max(64).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
})

export function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next: z.string().nullable() })
}
