import { formatJoinToken } from '@tenon/protocol'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { makeSigningKey } from '../ground/crypto.ts'
import { ContractServer, newId } from '../testing/contract-server.ts'
import { enrol } from './enrol.ts'

let server: ContractServer
beforeEach(async () => {
  server = await ContractServer.start()
})
afterEach(async () => {
  await server.close()
})

function attempt(joinToken: string) {
  return enrol({
    serverUrl: server.url,
    joinToken,
    key: makeSigningKey(),
    recipient: null,
    hostname: 'host',
    proxy: { httpsProxy: undefined, httpProxy: undefined, noProxy: undefined },
    log: pino({ level: 'silent' }),
    random: () => 0.01,
    clock: Date.now,
    signal: AbortSignal.timeout(5000),
  })
}

describe('enrolment', () => {
  it('gives an identity with the server’s keys, also those made after the token', async () => {
    const token = server.joinToken
    server.rotateKey()
    const identity = await attempt(token)
    expect(identity).toMatchObject({ agentId: server.agentId, serverId: server.serverId, role: 'install' })
    expect(Object.keys(identity.pinnedKeys)).toEqual(server.keys.map(({ link }) => link.keyId))
  })

  it('is asked of no server but the one whose key it names', async () => {
    const other = await ContractServer.start()
    const token = other.joinToken
    await other.close()
    await expect(attempt(token)).rejects.toMatchObject({ code: 'server_not_proven' })
    expect(server.agentPublicKey).toBe('')
  })

  it('is asked of nobody who only repeats the public key', async () => {
    const token = server.joinToken
    const [first] = server.keys
    server.keys[0] = { link: first!.link, key: makeSigningKey() }
    await expect(attempt(token)).rejects.toMatchObject({ code: 'server_not_proven' })
    expect(server.agentPublicKey).toBe('')
  })

  it('is asked of no server that did not make the token, though it has the key that the token names', async () => {
    const [, , , fingerprint] = server.joinToken.split('.')
    const token = formatJoinToken({
      id: newId('joinToken'),
      secret: 'A'.repeat(43),
      fingerprint: fingerprint!,
    })
    await expect(attempt(token)).rejects.toMatchObject({ code: 'server_not_proven' })
    expect(server.agentPublicKey).toBe('')
  })

  it('takes no answer that is signed for another key or another enrolment', async () => {
    for (const other of [
      { publicKey: makeSigningKey().publicKey },
      { nonce: 'AAAA' },
      { serverId: 'another' },
    ]) {
      server.enrolledAs = other
      await expect(attempt(server.joinToken)).rejects.toMatchObject({ code: 'server_not_proven' })
    }
  })

  it('is over when the server says no, and says what to do', async () => {
    server.enrolStatus = 409
    const refused = attempt(server.joinToken)
    await expect(refused).rejects.toMatchObject({ code: 'enrol_refused', remedy: expect.any(String) })
  })

  it('in a role of a later version says that the agent is to be updated', async () => {
    server.enrolledAs = { role: 'overseer' }
    await expect(attempt(server.joinToken)).rejects.toMatchObject({
      code: 'enrol_refused',
      message: expect.stringContaining('in the role overseer') as unknown,
      remedy: expect.stringContaining('Update the agent') as unknown,
    })
  })

  it('waits for a server that cannot answer yet', async () => {
    server.enrolStatus = 503
    const waiting = attempt(server.joinToken)
    setTimeout(() => (server.enrolStatus = 200), 50)
    expect(await waiting).toMatchObject({ agentId: server.agentId })
  })

  it('refuses a token of another form before it asks anybody', async () => {
    await expect(attempt('tenonjoin.nonsense')).rejects.toMatchObject({ code: 'bad_config' })
  })
})
