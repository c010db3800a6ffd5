import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openTunnel } from './tunnel.ts'

it('a connection through an agent that dies ends, and the job goes on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-tunnel-'))
  const socketPath = join(folder, 'api.sock')
  const agent = createServer()
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
