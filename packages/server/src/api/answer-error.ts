import { routes, type ApiErrorBody } from '@tenon/protocol'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod'
import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { isAlreadyThere, isDatabaseAway, isUnstorable } from '../store/database.ts'

/** Whatever went wrong becomes one of the API's codes; only what nobody foresaw is the server's own failure. */
export function answerError(
  context: Context,
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  if (error instanceof ApiFailure) return sendFailure(reply, request, error)
  if (hasZodFastifySchemaValidationErrors(error)) {
    const problems = error.validation.map((issue) => ({
      path: `${error.validationContext}${issue.instancePath.replaceAll('/', '.')}`,
      message: issue.message ?? 'is wrong',
    }))
    return sendFailure(
      reply,
      request,
      new ApiFailure('bad_request', 'the request does not have the right form', {
        problems,
        remedy: 'Correct what is named here; /docs/ of the server says what this route takes.',
      }),
    )
  }
  const known = KNOWN[error.code ?? '']
  if (known) return sendFailure(reply, request, new ApiFailure(known, error.message))
  if (typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500)
    return sendFailure(reply, request, new ApiFailure('bad_request', error.message))
  if (isDatabaseAway(error)) {
    return sendFailure(
      reply,
      request,
      new ApiFailure('unavailable', 'the database is away', {
        remedy: 'Try again in a moment; nothing was lost.',
      }),
    )
  }
  if (isUnstorable(error))
    return sendFailure(
      reply,
      request,
      new ApiFailure('bad_request', 'the request holds text or numbers that cannot be stored', {
        remedy: 'Leave out zero characters and broken Unicode.',
      }),
    )
  if (isAlreadyThere(error))
    return sendFailure(
      reply,
      request,
      new ApiFailure('conflict', 'somebody else made the same thing at the same time', {
        remedy: 'Look at what is there, then try again.',
      }),
    )
  context.log.error({ err: error, requestId: request.id, url: request.url.split('?')[0] }, 'a request failed')
  return sendFailure(
    reply,
    request,
    new ApiFailure('internal', 'something went wrong inside the server', {
      remedy: 'Give the request id to whoever runs this server.',
    }),
  )
}

/** Nothing at this address, or nothing under this method. */
export function answerNotFound(request: FastifyRequest, reply: FastifyReply) {
  const path = request.url.split('?')[0]!
  const allowed = methodsAt(path)
  if (allowed.length === 0 || allowed.includes(request.method)) {
    const message = `there is nothing at ${request.method} ${path}`
    return sendFailure(
      reply,
      request,
      new ApiFailure('unknown_route', message, { remedy: 'See /docs for what there is.' }),
    )
  }
  void reply.header('allow', allowed.join(', '))
  const message = `${path} takes ${allowed.join(' or ')}, not ${request.method}`
  return sendFailure(reply, request, new ApiFailure('method_not_allowed', message))
}

const PATTERNS = [
  ...Object.values(routes).map(({ method, path }) => ({ method: method as string, path })),
  { method: 'POST', path: '/agent/v1/enrol' },
  { method: 'POST', path: '/agent/v1/prove' },
  { method: 'POST', path: '/agent/v1/rotate-key' },
].map(({ method, path }) => ({ method, pattern: new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`) }))

function methodsAt(path: string): string[] {
  const methods = PATTERNS.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method)
  return [...new Set(methods)].toSorted()
}

const KNOWN: Record<string, 'too_large' | 'unsupported_media_type' | 'bad_request'> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_INVALID_JSON_BODY: 'bad_request',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'bad_request',
}

function sendFailure(reply: FastifyReply, request: FastifyRequest, failure: ApiFailure) {
  const { code, message, remedy, problems } = failure
  const body: ApiErrorBody = {
    error: {
      code,
      message,
      requestId: request.id,
      ...(remedy ? { remedy } : {}),
      ...(problems ? { problems } : {}),
    },
  }
  if (code === 'unavailable') void reply.header('retry-after', '2')
  return reply.code(failure.status).type('application/json').serializer(JSON.stringify).send(body)
}
