import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { API_ERRORS } from './error.ts'
import { route, SUBJECTS, type Route } from './route.ts'
import { routes } from './routes.ts'

const all = Object.entries<Route>(routes)

/** What paths are about; the rest is the server's own. `POST /installs` makes one of an app. */
const ABOUT: [start: string, kinds: string[]][] = [
  ['/api/v1/installs/', ['install']],
  ['/api/v1/installs', ['install', 'app']],
  ['/api/v1/runs', ['install']],
  ['/api/v1/jobs', ['install']],
  ['/api/v1/apps', ['app']],
  ['/api/v1/builds', ['app']],
  ['/api/v1/artifacts', ['app']],
  ['/api/v1/registry/logins', ['app']],
  ['/api/v1/agents/join-token', ['none']],
  ['/api/v1/agents', ['install']],
  ['/api/v1/audit', ['install']],
]

/** They change nothing but what the caller has to read with. */
const OF_THE_CALLER: Route[] = [routes['registry.login'], routes['registry.logout']]

describe('the route table', () => {
  it('has each address once', () => {
    const addresses = all.map(([, r]) => `${r.method} ${r.path.replaceAll(/:\w+/g, ':')}`)
    expect(new Set(addresses).size).toBe(addresses.length)
  })

  it.each(all)(
    '%s takes exactly the parameters of its path, and knows nobody who may not call it',
    (_, r) => {
      const inPath = [...r.path.matchAll(/:(\w+)/g)].map((m) => m[1] ?? '').toSorted()
      expect(Object.keys(r.params.shape).toSorted()).toEqual(inPath)
      expect(['read', 'operate', 'administer']).toContain(r.permission)
      const reads = r.method === 'GET' && r !== routes['installs.recipient'] && r.tag !== 'tokens'
      expect(r.permission === 'read').toBe(reads || OF_THE_CALLER.includes(r))
    },
  )

  it.each(all)('%s names what it is about, and the parameter that leads there', (_, r) => {
    const { kind, param } = SUBJECTS[r.subject]
    expect([null, ...Object.keys(r.params.shape)]).toContain(param)
    const ofPath = ABOUT.find(([start]) => r.path.startsWith(start))?.[1] ?? ['none']
    expect(ofPath).toContain(kind)
  })

  it('has no place for a route without a subject or a permission', () => {
    const given = {
      method: 'GET',
      path: '/api/v1/open',
      tag: 'server',
      summary: '',
      response: 'stream',
    } as const
    // @ts-expect-error: no subject
    route({ ...given, permission: 'read' })
    // @ts-expect-error: no permission
    route({ ...given, subject: 'none' })
    expect(all.every(([, r]) => r.subject in SUBJECTS)).toBe(true)
  })

  it.each(all)('%s refuses fields that it does not know and can be described as JSON schema', (_, r) => {
    const inputs = [r.params, r.query, ...(r.body instanceof z.ZodType ? [r.body] : [])]
    for (const input of inputs) {
      const schema = z.toJSONSchema(input, { io: 'input' })
      expect(schema.additionalProperties).toBe(false)
    }
    const outputs = r.response instanceof z.ZodType ? [r.response] : []
    for (const output of outputs) expect(z.toJSONSchema(output, { io: 'output' }).type).toBe('object')
  })
})

/** Answers with a list that no later version adds to, and why. */
const CLOSED: { [place: string]: string } = {
  'apps.version.app': 'what the vendor wrote, whole or not at all: somebody syncs it again',
}

describe('what the API answers', () => {
  it.each(all)('%s takes states, kinds and roles of a later server', (name, { response }) => {
    const closed = response instanceof z.ZodType ? listsOf(response, name) : []
    const isExcepted = (place: string) => Object.keys(CLOSED).some((start) => place.startsWith(start))
    expect(closed.filter((place) => !isExcepted(place))).toEqual([])
  })
})

/** Pure: where in a schema a value outside of a closed list would be refused. */
function listsOf(schema: z.ZodType, place: string): string[] {
  const within = (inner: unknown, key = '') => listsOf(inner as z.ZodType, `${place}${key}`)
  if (schema instanceof z.ZodEnum) return [place]
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.shape).flatMap(([key, field]) => within(field, `.${key}`))
  if (schema instanceof z.ZodArray) return within(schema.element)
  if (schema instanceof z.ZodRecord) return within(schema.valueType)
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((one) => within(one))
  if (schema instanceof z.ZodPipe) return within(schema.in)
  const isWrapped = schema instanceof z.ZodNullable || schema instanceof z.ZodOptional
  if (isWrapped || schema instanceof z.ZodExactOptional || schema instanceof z.ZodDefault)
    return within(schema.unwrap())
  return []
}

describe('the error codes', () => {
  it('each have an HTTP status of an error', () => {
    for (const status of Object.values(API_ERRORS)) {
      expect(status).toBeGreaterThanOrEqual(400)
      expect(status).toBeLessThan(600)
    }
  })
})
