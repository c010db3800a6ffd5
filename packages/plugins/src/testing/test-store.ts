import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { stateLock, type StateLock } from '@tenon/protocol'

/** What an install keeps between jobs: Terraform's state with its lock, and saved plans. */
export class TestStore {
  readonly states = new Map<string, Buffer>()
  readonly locks = new Map<string, StateLock>()
  readonly plans = new Map<string, Buffer>()

  /** True when the call was one of these. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const url = new URL(request.url ?? '/', 'http://job')
    const [, component] = /^\/v1\/terraform\/([^/]+)$/.exec(url.pathname) ?? []
    const [, digest] = /^\/v1\/plans\/([^/]+)$/.exec(url.pathname) ?? []
    if (component !== undefined) return this.#state(component, url, request, response)
    if (digest !== undefined) return this.#plan(decodeURIComponent(digest), response)
    if (url.pathname !== '/v1/plans' || request.method !== 'PUT') return false
    const bytes = await bytesOf(request)
    const name = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
    this.plans.set(name, bytes)
    response.end(JSON.stringify({ digest: name }))
    return true
  }

  #plan(digest: string, response: ServerResponse): true {
    const plan = this.plans.get(digest)
    const error = { code: 'not_found', message: 'The plan is not kept any more.', requestId: 'r' }
    if (plan === undefined) response.writeHead(404).end(JSON.stringify({ error }))
    else response.end(plan)
    return true
  }

  async #state(
    component: string,
    url: URL,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<true> {
    const body = await bytesOf(request)
    const held = this.locks.get(component)
    const refuse = () => response.writeHead(423).end(JSON.stringify(held ?? {}))
    switch (request.method) {
      case 'GET': {
        const state = this.states.get(component)
        response.writeHead(state ? 200 : 404).end(state)
        break
      }
      case 'POST':
        if (held === undefined || held.ID !== url.searchParams.get('ID')) refuse()
        else {
          this.states.set(component, body)
          response.end()
        }
        break
      case 'LOCK':
        if (held) refuse()
        else {
          this.locks.set(component, stateLock.parse(JSON.parse(body.toString())))
          response.end()
        }
        break
      case 'UNLOCK':
        this.locks.delete(component)
        response.end()
        break
      default:
        response.writeHead(405).end()
    }
    return true
  }
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
