import {
  enrolRequest,
  proveRequest,
  rotateKeyRequest,
  routes,
  type ProveRequest,
  type Route,
  type RouteName,
} from '@tenon/protocol'
import { READ_AHEAD_BYTES } from '@tenon/oci'
import helmet from '@fastify/helmet'
import rateLimit from '@fastify/rate-limit'
import Fastify, {
  LogController,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import { randomUUID } from 'node:crypto'
import { enrolAgent } from '../agents/enrol.ts'
import { proveServer } from '../agents/prove-server.ts'
import { rotateAgentKey } from '../agents/rotate-key.ts'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { authorize, authorizeElevated } from '../people/authority.ts'
import { answerError, answerNotFound } from './answer-error.ts'
import { appHandlers } from './apps.ts'
import { artifactHandlers } from './artifacts.ts'
import { authenticate } from './auth.ts'
import { deployHandlers } from './deploys.ts'
import { serveDocs } from './docs.ts'
import type { Call, Handlers } from './handler.ts'
import { installHandlers } from './installs.ts'
import { jobHandlers } from './jobs.ts'
import { createRights, type Rights } from './rights.ts'
import { runHandlers } from './runs.ts'
import { secretHandlers } from './secrets.ts'
import { serverHandlers } from './server.ts'
import { tokenHandlers } from './tokens.ts'

const MAX_BODY = 2_097_152

/** Every route of the protocol has its handler here; the compiler knows when one is missing. */
const handlers: Handlers = {
  ...serverHandlers,
  ...tokenHandlers,
  ...appHandlers,
  ...artifactHandlers,
  ...installHandlers,
  ...secretHandlers,
  ...deployHandlers,
  ...runHandlers,
  ...jobHandlers,
}

export async function createHttp(
  context: Context,
  isReady: () => Promise<boolean>,
): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: context.log.child({ part: 'http' }),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUID(),
    bodyLimit: MAX_BODY,
    // For pushes into the registry.
    http: { highWaterMark: READ_AHEAD_BYTES },
    trustProxy: context.config.trustProxy,
    routerOptions: { maxParamLength: 256 },
    // A URL that cannot be read meets no hook and no handler.
    frameworkErrors: (error, request, reply) => {
      void reply.header('x-request-id', request.id)
      void answerError(context, error, request as never, reply as never)
    },
  }) as unknown as FastifyInstance
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.setErrorHandler((error, request, reply) => answerError(context, error as FastifyError, request, reply))
  app.setNotFoundHandler((request, reply) => answerNotFound(request, reply))
  app.addHook('onRequest', async (request, reply) => void reply.header('x-request-id', request.id))
  await app.register(helmet, {
    contentSecurityPolicy: { directives: { defaultSrc: ["'self'"], upgradeInsecureRequests: null } },
    strictTransportSecurity: false,
  })
  await app.register(rateLimit, {
    max: context.config.rateLimitPerMinute,
    timeWindow: '1 minute',
    errorResponseBuilder: (_request, limit) =>
      new ApiFailure('rate_limited', `more than ${limit.max} requests in a minute`, {
        remedy: `Try again in ${limit.after}.`,
      }),
  })
  await serveDocs(app)
  // Streams go to their handler unread; everything else that is not JSON is refused by Fastify, text too.
  app.removeContentTypeParser('text/plain')
  app.addContentTypeParser('application/octet-stream', (_request, payload, done) => done(null, payload))
  const rights = createRights(context)
  app.addHook('onClose', async () => rights.stop())
  for (const name of Object.keys(routes) as RouteName[]) addRoute(app, context, rights, name)
  addAgentRoutes(app, context)
  addPlumbing(app, context, isReady)
  return app
}

function addRoute(app: FastifyInstance, context: Context, rights: Rights, name: RouteName): void {
  const route = routes[name] as Route
  app.route({
    method: route.method,
    url: route.path,
    ...(route.body === 'bytes' ? { bodyLimit: Number.MAX_SAFE_INTEGER } : {}),
    schema: {
      tags: [route.tag],
      summary: route.summary,
      operationId: name,
      security: [{ token: [] }],
      params: route.params,
      querystring: route.query,
      ...(route.body !== null && route.body !== 'bytes' ? { body: route.body } : {}),
      ...(route.response === 'stream' ? {} : { response: { 200: route.response } }),
    },
    // Before the body is read: who may not call this does not get to send one.
    preParsing: async (request: FastifyRequest, reply: FastifyReply) => {
      const caller = await authenticate(context, request)
      authorize(caller, route)
      Object.assign(request, { caller })
      if (route.response === 'stream' || route.body === 'bytes') rights.hold(caller, route, reply.raw)
    },
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const { caller } = request as unknown as { caller: Call<RouteName>['caller'] }
      if (route.body === 'bytes' && request.headers['content-type'] !== 'application/octet-stream') {
        throw new ApiFailure('unsupported_media_type', 'the body must be application/octet-stream')
      }
      const call = {
        context,
        caller,
        elevate: () => authorizeElevated(caller, route),
        params: request.params,
        query: request.query,
        body: request.body,
        request,
        reply,
      }
      return (handlers[name] as (call: unknown) => Promise<unknown>)(call)
    },
  })
}

/** What an agent may call without a session: every word is signed, or writes nothing. */
function addAgentRoutes(app: FastifyInstance, context: Context): void {
  const limited = {
    config: { rateLimit: { max: Math.max(60, Math.floor(context.config.rateLimitPerMinute / 2)) } },
  }
  app.post('/agent/v1/prove', { ...limited, schema: { body: proveRequest, hide: true } }, async (request) =>
    proveServer(context, request.body as ProveRequest),
  )
  app.post('/agent/v1/enrol', { ...limited, schema: { body: enrolRequest, hide: true } }, async (request) =>
    enrolAgent(context, request.body as never),
  )
  const rotation = { ...limited, schema: { body: rotateKeyRequest, hide: true } }
  app.post('/agent/v1/rotate-key', rotation, async (request) =>
    rotateAgentKey(context, request.body as never),
  )
}

function addPlumbing(app: FastifyInstance, context: Context, isReady: () => Promise<boolean>): void {
  const hidden = { schema: { hide: true }, config: { rateLimit: false as const } }
  app.get('/healthz', hidden, async () => ({ status: 'ok' }))
  app.get('/readyz', hidden, async (_request, reply) => {
    const ready = await isReady()
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'the database is away' })
  })
  const registry = async (request: FastifyRequest, reply: FastifyReply) => {
    reply.hijack()
    await context.registry.handler(request.raw, reply.raw)
  }
  // The registry reads its own bodies: no parser may touch them.
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    scope.route({
      method: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      url: '/v2/*',
      handler: registry,
      exposeHeadRoute: false,
      ...hidden,
    })
    scope.route({ method: ['GET', 'HEAD'], url: '/v2', handler: registry, exposeHeadRoute: false, ...hidden })
  })
}
