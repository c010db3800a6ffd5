import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { keyStatement, type KeyLink } from '@tenon/core'
import { makeSigningKey, verify, type SigningKey } from '../ground/crypto.ts'
import { lockFolder } from '../ground/folder-lock.ts'
import { bootIdentity, loadOrMakeKey, saveIdentity } from './identity.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'tenon-identity-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const root = makeSigningKey()
const enrolled = {
  agentId: 'agt_1',
  serverId: 'server',
  role: 'build' as const,
  installId: null,
  pinnedKeys: { a: root.publicKey },
}

function chained(keyId: string, by: SigningKey): KeyLink {
  const { publicKey } = makeSigningKey()
  return { keyId, publicKey, signedBy: 'a', signature: by.sign(keyStatement({ keyId, publicKey })) }
}

describe('an identity', () => {
  it('raises its boot counter at each start, and has another boot id each time', async () => {
    expect(await bootIdentity(dir)).toBeUndefined()
    await saveIdentity(dir, enrolled)
    const first = await bootIdentity(dir)
    const second = await bootIdentity(dir)
    expect([first?.bootCounter, second?.bootCounter]).toEqual([1, 2])
    expect(first?.bootId).not.toBe(second?.bootId)
  })

  it('keeps one key, readable by its owner alone', async () => {
    const key = await loadOrMakeKey(dir)
    const again = await loadOrMakeKey(dir)
    expect(again.publicKey).toBe(key.publicKey)
    expect((await stat(path.join(dir, 'agent.key'))).mode & 0o777).toBe(0o600)
    expect(verify(key.publicKey, Buffer.from('x'), again.sign(Buffer.from('x')))).toBe(true)
    expect(verify(key.publicKey, Buffer.from('y'), again.sign(Buffer.from('x')))).toBe(false)
  })

  it('pins keys on disk, also two at once', async () => {
    await saveIdentity(dir, enrolled)
    const identity = (await bootIdentity(dir))!
    const [b, c] = [chained('b', root), chained('c', root)]
    await Promise.all([identity.learnKeys([b], 0), identity.learnKeys([c], 0)])
    const again = (await bootIdentity(dir))!
    expect([...again.serverKeys.pinned.keys()]).toEqual(['a', 'b', 'c'])
  })

  it('makes one next key however many ask at once, and takes the one that was accepted', async () => {
    await saveIdentity(dir, enrolled)
    const identity = (await bootIdentity(dir))!
    const made = await Promise.all([identity.makeNextKey(), identity.makeNextKey(), identity.makeNextKey()])
    expect(new Set(made.map(({ publicKey }) => publicKey)).size).toBe(1)
    await identity.takeNextKey(made[0])
    expect((await loadOrMakeKey(dir)).publicKey).toBe(made[0].publicKey)
    expect(identity.key.publicKey).toBe(made[0].publicKey)
  })

  it('takes the very key that was accepted, also where the disk holds another', async () => {
    await saveIdentity(dir, enrolled)
    const identity = (await bootIdentity(dir))!
    const accepted = await identity.makeNextKey()
    await writeFile(path.join(dir, 'agent.key.next'), makeSigningKey().toPem())
    await identity.takeNextKey(accepted)
    const again = (await bootIdentity(dir))!
    expect(again.key.publicKey).toBe(accepted.publicKey)
    expect(again.nextKey).toBeUndefined()
  })

  it('that cannot be read is a coded error, not a new identity', async () => {
    await writeFile(path.join(dir, 'identity.json'), '{"version":1')
    await expect(bootIdentity(dir)).rejects.toMatchObject({ code: 'identity_broken' })
  })
})

describe('the lock of a folder', () => {
  it('lets one process in, and the next one after it', async () => {
    const lock = await lockFolder(dir)
    await expect(lockFolder(dir)).rejects.toMatchObject({ code: 'folder_in_use' })
    await lock.release()
    await (await lockFolder(dir)).release()
  })

  it('is taken over from a process that is gone', async () => {
    const child = spawn('true')
    await once(child, 'exit')
    const gone = { pid: child.pid, startTime: '1', boot: 'x' }
    await writeFile(path.join(dir, 'agent.lock'), JSON.stringify(gone))
    await lockFolder(dir)
    expect(JSON.parse(await readFile(path.join(dir, 'agent.lock'), 'utf8'))).toMatchObject({
      pid: process.pid,
    })
  })

  it('is not held by another process that got the same pid later', async () => {
    const other = { pid: process.pid, startTime: '1', boot: 'x' }
    await writeFile(path.join(dir, 'agent.lock'), JSON.stringify(other))
    await expect(lockFolder(dir)).resolves.toBeDefined()
  })
})
