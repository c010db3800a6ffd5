import { signingBytes, signKeyChange, type SignedText } from '@tenon/core'
import { Decrypter, generateX25519Identity, identityToRecipient } from 'age-encryption'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { keyFingerprint } from '../crypto.ts'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { createSigner, type Signer } from '../testing/signed-audit.ts'
import { serverInfo, testId } from '../testing/values.ts'

const AGENT = testId('agent')
let api: Api
let home: Home
let identity: string
let agentKey: Signer
let signer: Signer
let agentId: string
let installId: string
let keyChanges: SignedText[]

beforeEach(async () => {
  home = await createHome()
  identity = await generateX25519Identity()
  const recipient = await identityToRecipient(identity)
  agentKey = signer = createSigner()
  agentId = AGENT
  installId = testId('install')
  keyChanges = []
  api = await startApi({
    'server.info': () => serverInfo(),
    'installs.recipient': () => ({
      installId,
      installName: 'acme',
      keyChanges,
      agentId,
      agentPublicKey: agentKey.publicKey,
      recipient,
      signature: signer.sign(signingBytes('agent-recipient/1', { agentId, recipient })),
    }),
    'secrets.put': () => ({ name: 'api-key', version: 1, delivered: true }),
  })
})
afterEach(() => api.stop())

const argv = ['installs', 'secrets', 'set', 'acme', 'api-key']

async function opened(): Promise<string> {
  const { ciphertext } = api.callsOf('secrets.put').at(-1)!.given.body as { ciphertext: string }
  const decrypter = new Decrypter()
  decrypter.addIdentity(identity)
  return decrypter.decrypt(Buffer.from(ciphertext, 'base64'), 'text')
}

describe('setting a secret', () => {
  it('seals it so that only the agent can open it', async () => {
    const ran = await home.run(argv, { env: api.env, stdin: 's3cret\n' })
    expect(ran).toMatchObject({ code: 0, stdout: 'secret api-key version 1 is sealed to acme: delivered\n' })
    expect(await opened()).toBe('s3cret')
    expect(JSON.stringify(api.calls.map((call) => call.given.body)) + ran.stdout + ran.stderr).not.toContain(
      's3cret',
    )
  })

  it('takes the exact bytes of a file, or what is typed without showing it', async () => {
    await writeFile(join(home.home, 'key'), 'line\n')
    await home.run([...argv, '--file', 'key'], { env: api.env })
    expect(await opened()).toBe('line\n')
    const ran = await home.run(argv, { env: api.env, tty: 80, stdin: 'typed\r' })
    expect(await opened()).toBe('typed')
    expect(ran.stdout + ran.stderr).not.toContain('typed')
  })

  it('refuses a recipient that the agent did not sign', async () => {
    signer = createSigner()
    const ran = await home.run(argv, { env: api.env, stdin: 'x' })
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('is not signed by agent') })
    expect(api.callsOf('secrets.put')).toEqual([])
  })

  it('refuses an agent whose key is another one than before', async () => {
    await home.run(argv, { env: api.env, stdin: 'x' })
    agentKey = signer = createSigner()
    const ran = await home.run(argv, { env: api.env, stdin: 'x' })
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('another key than before') })
    expect(api.callsOf('secrets.put')).toHaveLength(1)
  })

  it('refuses another agent for the same install, with both fingerprints, until it is accepted by its key', async () => {
    await home.run(argv, { env: api.env, stdin: 'x' })
    const before = keyFingerprint(agentKey.publicKey)
    agentKey = signer = createSigner()
    agentId = testId('agent', 2)
    const after = keyFingerprint(agentKey.publicKey)
    for (const named of ['acme', installId]) {
      const ran = await home.run(argv.with(3, named), { env: api.env, stdin: 'x' })
      expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining(before) as string })
      expect(ran.stderr).toContain(after)
    }
    installId = testId('install', 2)
    expect((await home.run(argv, { env: api.env, stdin: 'x' })).code).toBe(1)
    expect((await home.run([...argv, '--agent-key', before], { env: api.env, stdin: 'x' })).code).toBe(1)
    expect(api.callsOf('secrets.put')).toHaveLength(1)
    expect((await home.run([...argv, '--agent-key', after], { env: api.env, stdin: 'x' })).code).toBe(0)
    expect((await home.run(argv, { env: api.env, stdin: 'x' })).code).toBe(0)
  })

  it('refuses an answer that is about another install', async () => {
    const ran = await home.run(argv.with(3, 'other'), { env: api.env, stdin: 'x' })
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('answered for install acme') })
  })

  it('follows an agent whose key before vouches for the new one, and does not go back', async () => {
    await home.run(argv, { env: api.env, stdin: 'x' })
    const first = agentKey
    const [second, third] = [createSigner(), createSigner()]
    keyChanges = [signKeyChange(AGENT, first, second), signKeyChange(AGENT, second, third)]
    agentKey = signer = third
    const ran = await home.run(argv, { env: api.env, stdin: 'x' })
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    agentKey = signer = first
    expect((await home.run(argv, { env: api.env, stdin: 'x' })).code).toBe(1)
    expect(api.callsOf('secrets.put')).toHaveLength(2)
  })

  it('refuses an empty or too large value', async () => {
    expect((await home.run(argv, { env: api.env, stdin: '\n' })).code).toBe(2)
    expect((await home.run(argv, { env: api.env, stdin: 'x'.repeat(80_000) })).code).toBe(2)
  })
})
