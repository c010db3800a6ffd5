import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { serverInfo, testId } from '../testing/values.ts'

const spki = () =>
  generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
const [OLD, NEW] = [spki(), spki()]
const OLD_ID = testId('key')
const NEW_ID = OLD_ID.replace(/.$/, 'z')

describe('tenon keys export', () => {
  let api: Api
  let home: Home
  beforeEach(async () => {
    home = await createHome()
    api = await startApi({
      'server.info': () =>
        serverInfo({
          keys: [
            { keyId: OLD_ID, publicKey: OLD, signedBy: null, signature: null },
            { keyId: NEW_ID, publicKey: NEW, signedBy: OLD_ID, signature: 'AAAA' },
          ],
        }),
    })
  })
  afterEach(() => api.stop())
  const run = (...argv: string[]) => home.run(['keys', 'export', ...argv], { env: api.env })

  it('prints the newest key as other tools read it, and nothing else, on stdout', async () => {
    const ran = await run('--pem')
    expect(ran.stdout).toMatch(/^-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=\n]+\n-----END PUBLIC KEY-----\n$/)
    const read = createPublicKey(ran.stdout).export({ format: 'der', type: 'spki' })
    expect(read.toString('base64')).toBe(NEW)
    expect(ran.stderr).toContain(NEW_ID)
  })

  it('prints an older one by its id, and refuses one that is not there', async () => {
    expect((await run(OLD_ID)).stdout).toBe(`${OLD}\n`)
    const ran = await run('key_none')
    expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining('tenon keys list')])
  })
})
