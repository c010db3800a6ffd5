import { apiError, routes, type Route, type RouteName } from '@tenon/protocol'

export const routeNames = Object.keys(routes) as RouteName[]

export function routeOf(name: RouteName): Route {
  return routes[name] as Route
}

/** An id of the right form that nobody has. */
export function unknownId(prefix = 'job'): string {
  return `${prefix}_${'0'.repeat(26)}`
}

export interface Answer {
  status: number
  code: string | undefined
  text: string
  headers: Headers
}

/** A request past the typed client, for what the client would not send. */
export async function ask(
  url: string,
  name: RouteName,
  options: {
    token?: string | undefined
    params?: Record<string, string>
    query?: string
    body?: string | Uint8Array<ArrayBuffer>
    type?: string | null
  } = {},
): Promise<Answer> {
  const route = routeOf(name)
  const path = route.path.replace(/:(\w+)/g, (_, key: string) =>
    encodeURIComponent(options.params?.[key] ?? sampleParam(key)),
  )
  const headers: Record<string, string> = {}
  if (options.token) headers['authorization'] = `Bearer ${options.token}`
  const usual = route.body === 'bytes' ? 'application/octet-stream' : 'application/json'
  const type = options.type === undefined && route.body !== null ? usual : options.type
  if (type) headers['content-type'] = type
  const body = options.body ?? (route.body === null ? undefined : '{}')
  return request(`${url}${path}${options.query ?? ''}`, {
    method: route.method,
    headers,
    ...(body === undefined || route.method === 'GET' ? {} : { body }),
  })
}

export async function request(url: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, init)
  const text = await response.text()
  return { status: response.status, code: codeOf(text), text, headers: response.headers }
}

/** Status and code of a refusal, which must also have a message and the id by which the log knows it. */
export function coded(answer: Answer): [status: number, code: string] {
  const { error } = apiError.parse(JSON.parse(answer.text))
  if (error.message === '' || error.requestId !== answer.headers.get('x-request-id'))
    throw new Error(`a refusal without a message or its request id: ${answer.text}`)
  return [answer.status, error.code]
}

function sampleParam(key: string): string {
  if (key === 'id' || key === 'step') return unknownId()
  if (key === 'number') return '1'
  return key === 'chain' ? 'server' : 'nobody'
}

function codeOf(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { error?: { code?: string } }).error?.code
  } catch {
    return undefined
  }
}
