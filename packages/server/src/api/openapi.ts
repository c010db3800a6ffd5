import { API_ERRORS, apiError, routes, type Route } from '@tenon/protocol'
import { z } from 'zod'

interface Content {
  content?: { [media: string]: { schema?: unknown } }
}

/** The parts of an OpenAPI document that are added here. */
export interface OpenApi {
  paths?: Record<string, Record<string, Operation>>
  components?: { schemas?: Record<string, unknown> }
}

interface Operation extends Record<string, unknown> {
  operationId?: string
  description?: string
  requestBody?: Content & { required?: boolean; description?: string }
  responses?: Record<string, Content & { description?: string }>
}

const ERROR = { $ref: '#/components/schemas/ApiError' }
const BYTES = { type: 'string', format: 'binary' }

const STREAMS = {
  'application/octet-stream': {
    description: 'The bytes, as they come.',
    content: { 'application/octet-stream': { schema: BYTES } },
  },
  'text/event-stream': {
    description:
      'Server-sent events, until the run has ended. Each is named `run`, and its `data` is one line of JSON: the run as `runs.get` answers it. Lines that begin with a colon only keep the connection open.',
    content: { 'text/event-stream': { schema: { type: 'string' } } },
  },
}

/** Pure: the document with what schemas of requests cannot say: errors, raw bodies and streams. */
export function completeOpenApi<A extends OpenApi>(api: A): A {
  const { $schema: _, ...error } = z.toJSONSchema(apiError)
  const operations = (methods: Record<string, Operation>) =>
    Object.fromEntries(Object.entries(methods).map(([method, each]) => [method, completed(each)]))
  const paths = Object.entries(api.paths ?? {}).map(([path, methods]) => [path, operations(methods)])
  return {
    ...api,
    components: { ...api.components, schemas: { ...api.components?.schemas, ApiError: error } },
    paths: Object.fromEntries(paths) as never,
  }
}

function completed(operation: Operation): Operation {
  const route = (routes as Record<string, Route>)[operation.operationId ?? '']
  if (!route) return operation
  const responses = { ...operation.responses }
  if (route.response === 'stream') responses['200'] = STREAMS[route.media as keyof typeof STREAMS]
  for (const [status, codes] of errorsOf(route))
    responses[status] = { description: codes.join(', '), content: { 'application/json': { schema: ERROR } } }
  const body = { required: true, content: { 'application/octet-stream': { schema: BYTES } } }
  const description = `Takes the permission ${permissionOf(route)}.`
  return { ...operation, description, ...(route.body === 'bytes' ? { requestBody: body } : {}), responses }
}

function permissionOf({ permission, elevated }: Route): string {
  return elevated ? `${permission}; where ${elevated.when}, ${elevated.permission}` : permission
}

const ALWAYS = [400, 401, 403, 429, 500, 503]

/** The codes that a route may answer with, by status. */
function errorsOf(route: Route): [status: string, codes: string[]][] {
  const takesNames = Object.keys(route.params.shape).length > 0 || Object.keys(route.query.shape).length > 0
  const statuses = new Set([
    ...ALWAYS,
    ...(takesNames || route.body !== null ? [404] : []),
    ...(route.method === 'GET' ? [] : [409]),
    ...(route.body === null ? [] : [413, 415]),
  ])
  return [...statuses]
    .toSorted((a, b) => a - b)
    .map((status) => [String(status), CODES.filter(([, of]) => of === status).map(([code]) => code)])
}

/** What a call of no route gets is no answer of one. */
const CODES = Object.entries(API_ERRORS).filter(([code]) => code !== 'unknown_route')
