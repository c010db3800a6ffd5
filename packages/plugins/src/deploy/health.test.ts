import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { waitForHealth, type Watch } from './health.ts'
import type { ToolContext } from './run-tool.ts'

vi.setConfig({ testTimeout: 120_000 })

const CRASH = 'its container main ended with code 3'
const servers: Server[] = []

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

describe('the probes of what has died', () => {
  it('do not hide its crash while one of them hangs', async () => {
    const { url, asked } = await serverThatHangs()
    const watch = { look: async () => (asked() > 0 ? CRASH : undefined), worst: async () => CRASH }
    const patient = { patienceMs: 90_000, cwd: '/', watch }
    expect(await waitForHealth(context(), healthOf('http', url), patient)).toBe(CRASH)
    expect(asked()).toBe(1)
  })

  it('give up with the worst that was seen of it, though it looks well at that moment', async () => {
    const { url } = await serverThatHangs()
    const watch = { look: async () => undefined, worst: async () => CRASH }
    const hasty = { patienceMs: 0, cwd: '/', watch }
    expect(await waitForHealth(context(), healthOf('http', url), hasty)).toBe(CRASH)
  })

  it('are the reason themselves where nothing crashed', async () => {
    const { url, server } = await serverThatHangs()
    server.removeAllListeners('request')
    server.on('request', (_request, response) => response.writeHead(503).end())
    const watch: Watch = { look: async () => undefined, worst: async () => undefined }
    const problem = await waitForHealth(context(), healthOf('http', url), { patienceMs: 0, cwd: '/', watch })
    expect(problem).toBe(`the probe front failed: ${url} answers 503`)
  })

  it('end with the job that is canceled, and so does the watching', async () => {
    const { url, asked } = await serverThatHangs()
    const stop = new AbortController()
    const watch: Watch = {
      look: async () => {
        if (asked() > 0) stop.abort()
        return undefined
      },
      worst: async () => CRASH,
    }
    const waiting = waitForHealth(context(stop.signal), healthOf('http', url), {
      patienceMs: 90_000,
      cwd: '/',
      watch,
    })
    await expect(waiting).rejects.toMatchObject({ code: 'canceled' })
  })
})

function healthOf(type: 'http' | 'tcp', url: string) {
  return { probes: [{ name: 'front', type, url }], blockDeploy: true, stabilizationSeconds: 0 }
}

function context(signal: AbortSignal = new AbortController().signal): ToolContext {
  return { baseEnv: {}, log: () => undefined, signal } as unknown as ToolContext
}

async function serverThatHangs(): Promise<{ server: Server; url: string; asked: () => number }> {
  let asked = 0
  const server = createServer(() => void asked++)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, asked: () => asked }
}
