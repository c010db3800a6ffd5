import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { API_ERRORS } from './error.ts'
import type { Route } from './route.ts'
import { routes } from './routes.ts'

const all = Object.entries<Route>(routes)

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
      expect(r.permission === 'read').toBe(
        r.method === 'GET' && r !== routes['installs.recipient'] && r.tag !== 'tokens',
      )
    },
  )

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

describe('the error codes', () => {
  it('each have an HTTP status of an error', () => {
    for (const status of Object.values(API_ERRORS)) {
      expect(status).toBeGreaterThanOrEqual(400)
      expect(status).toBeLessThan(600)
    }
  })
})
