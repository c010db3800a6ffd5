import { PRODUCT_VERSION } from '@tenon/protocol'
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { jsonSchemaTransform } from 'fastify-type-provider-zod'
import { completeOpenApi, type OpenApi } from './openapi.ts'
import { docsStyle, renderDocs, type ApiDescription } from './docs-page.ts'

/** OpenAPI 3.1 made from the same schemas that check each request, and a page to read it. */
export async function serveDocs(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Tenon',
        version: PRODUCT_VERSION,
        description:
          'The API of one vendor’s Tenon server. Every call needs an API token; `tenon tokens create` makes one.',
      },
      components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    },
    transform: jsonSchemaTransform,
  })
  const describe = () => completeOpenApi(app.swagger() as unknown as OpenApi)
  app.get('/openapi.json', { schema: { hide: true } }, async () => describe())
  let page: string | undefined
  app.get('/docs', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/docs/'))
  app.get('/docs/', { schema: { hide: true } }, async (_request, reply) => {
    page ??= renderDocs(describe() as unknown as ApiDescription)
    return reply.type('text/html; charset=utf-8').send(page)
  })
  app.get('/docs/style.css', { schema: { hide: true } }, async (_request, reply) =>
    reply.type('text/css; charset=utf-8').send(docsStyle),
  )
}
