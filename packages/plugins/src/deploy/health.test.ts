import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Dial } from '../sdk/plugin.ts'
import { firstProblem, waitForHealth, type Watch } from './health.ts'
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

  it('are good with a connection, for tcp', async () => {
    const { url, server } = await serverThatHangs()
    const at = `tcp://${new URL(url).host}`
    const hasty = { patienceMs: 0, cwd: '/' }
    expect(await waitForHealth(context(), healthOf('tcp', at), hasty)).toBeUndefined()
    await new Promise((done) => server.close(done))
    const refused = await waitForHealth(context(), healthOf('tcp', at), hasty)
    expect(refused).toMatch(/^the probe front failed: tcp:.* refuses a connection: .*ECONNREFUSED/)
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

describe('the probes of a job whose way out is its agent', () => {
  it('connect through it, for http and for tcp', async () => {
    const { url, server } = await serverThatHangs()
    server.removeAllListeners('request')
    server.on('request', (request, response) => response.writeHead(request.url === '/well' ? 200 : 500).end())
    const asked: string[] = []
    const dial: Dial = async (place) => {
      asked.push(place)
      return connect(Number(new URL(url).port), '127.0.0.1')
    }
    const closed = { ...context(), dial }
    const hasty = { patienceMs: 0, cwd: '/' }
    expect(await waitForHealth(closed, healthOf('http', 'http://web.test/well'), hasty)).toBeUndefined()
    expect(await waitForHealth(closed, healthOf('http', 'http://web.test:81/ill'), hasty)).toContain(
      'answers 500',
    )
    expect(await waitForHealth(closed, healthOf('tcp', 'tcp://[fd00::1]:5432'), hasty)).toBeUndefined()
    expect(asked).toEqual(['web.test:80', 'web.test:81', '[fd00::1]:5432'])
  })

  it.each(['http', 'tcp'] as const)('give up at once, in its words, where it refuses: %s', async (type) => {
    const dial: Dial = async () => {
      throw Object.assign(new Error('This job may not reach web.test:80.'), { isRefused: true })
    }
    const problem = await waitForHealth({ ...context(), dial }, healthOf(type, `${type}://web.test:80`), {
      patienceMs: 600_000,
      cwd: '/',
    })
    expect(problem).toMatch(/^the probe front failed: .*: This job may not reach web\.test:80\.$/)
  })

  it('ask what stands beside the job without it', async () => {
    const { url, server } = await serverThatHangs()
    server.removeAllListeners('request')
    server.on('request', (_request, response) => response.end())
    const dial: Dial = async () => {
      throw new Error('asked the agent')
    }
    const probes = [{ name: '', type: 'http' as const, url }]
    const near = { cwd: '/', isNear: true as const }
    expect(await firstProblem({ ...context(), dial }, probes, near)).toBeUndefined()
    expect(await firstProblem({ ...context(), dial }, probes, { cwd: '/' })).toContain('asked the agent')
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
