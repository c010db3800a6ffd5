import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { makeSigningKey, signerOf } from '../ground/crypto.ts'
import { ContractServer } from '../testing/contract-server.ts'
import { waitUntil } from '../testing/wait-until.ts'
import { createChannel } from './channel.ts'

it('a fleet of channels in one process connects, and comes back after a cut', async () => {
  const server = await ContractServer.start()
  const key = makeSigningKey()
  server.agentPublicKey = key.publicKey
  const pinned = new Map([[server.current.link.keyId, server.current.link.publicKey]])
  const channels = Array.from({ length: 100 }, () =>
    createChannel({
      serverUrl: server.url,
      agentId: server.agentId,
      serverId: server.serverId,
      bootCounter: 1,
      bootId: randomBytes(18).toString('base64url'),
      sign: signerOf(key),
      keys: () => ({ pinned, ended: new Map() }),
      onKeys: async () => undefined,
      hello: () => ({
        version: '1',
        features: [],
        runtime: { name: 'fake', confinement: 'none', warnings: [] },
        slots: 1,
        inventory: [],
        auditHead: null,
        recipient: null,
      }),
      heartbeat: () => ({ running: 0, outboxBytes: 0, dropped: 0 }),
      onWelcome: () => undefined,
      onFrame: () => undefined,
      onDisconnect: () => undefined,
      proxy: { httpsProxy: undefined, httpProxy: undefined, noProxy: undefined },
      log: pino({ level: 'silent' }),
      clock: Date.now,
      random: Math.random,
    }),
  )
  for (const channel of channels) channel.start()
  await waitUntil('all of them', () => channels.every((channel) => channel.isOpen))
  server.cutAll()
  await waitUntil('all of them again', () => server.sessions >= 200 && channels.every(({ isOpen }) => isOpen))
  await Promise.all(channels.map((channel) => channel.stop()))
  expect(await Promise.all(channels.map(({ ended }) => ended))).toEqual(channels.map(() => undefined))
  await server.close()
})
