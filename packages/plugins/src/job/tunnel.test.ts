import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openTunnel } from './tunnel.ts'

it.each([
  ['localhost', 'DNS:localhost'],
  ['127.0.0.1', 'IP:127.0.0.1'],
])('knows the agent at %s by its certificate, whatever the place that is asked for', async (host, name) => {
  const dir = mkdtempSync(join(tmpdir(), 'tenon-tunnel-'))
  const files = { key: join(dir, 'key'), cert: join(dir, 'cert') }
  const form = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const subject = ['-subj', '/CN=agent', '-addext', `subjectAltName=${name}`]
  execFileSync('openssl', ['req', '-x509', ...form, ...subject, '-keyout', files.key, '-out', files.cert], {
    stdio: 'ignore',
  })
  const cert = readFileSync(files.cert, 'utf8')
  const agent = createServer({ cert, key: readFileSync(files.key) })
  agent.on('connect', ({ url }, socket) => socket.end(`HTTP/1.1 200 Here\r\n\r\n${url}`))
  await new Promise<void>((resolve) => agent.listen(0, host, resolve))
  const secure = { host, port: (agent.address() as AddressInfo).port, ca: cert }
  const options = { socketPath: '', secure, token: 't', signal: new AbortController().signal, patienceMs: 0 }
  try {
    for (const place of ['registry.example:443', '10.0.0.1:443']) {
      const said: Buffer[] = []
      for await (const bytes of await openTunnel(options, place)) said.push(bytes as Buffer)
      expect(Buffer.concat(said).toString()).toBe(place)
    }
  } finally {
    agent.close()
    rmSync(dir, { recursive: true })
  }
})

it('a connection through an agent that dies ends, and the job goes on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-tunnel-'))
  const socketPath = join(folder, 'api.sock')
  const agent = createHttpServer()
  const asked = new Promise<Socket>((resolve) =>
    agent.once('connect', (_request, socket: Socket) => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      resolve(socket)
    }),
  )
  agent.listen(socketPath)
  await once(agent, 'listening')
  try {
    const { signal } = new AbortController()
    const tunnel = await openTunnel({ socketPath, token: 'a token', signal }, 'registry.example:443')
    const far = await asked
    // What was sent and never read makes the end of the other side a reset.
    far.pause()
    tunnel.write(Buffer.alloc(1 << 20))
    await once(far, 'readable')
    const closed = new Promise<boolean>((resolve) => tunnel.once('close', resolve))
    far.destroy()
    expect(await closed).toBe(true)
  } finally {
    agent.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
