import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from 'age-encryption'
import * as fc from 'fast-check'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { exportStore } from './export-store.ts'
import { openInstallStore } from './file-store.ts'
import { STORE_KINDS, type InstallStore } from './install-store.ts'
import { restoreStore } from './restore-store.ts'
import { openSealing, setSecret } from './sealing.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)

let identity: string
let recipient: string
let base: string
let store: InstallStore
beforeAll(async () => {
  identity = await generateX25519Identity()
  recipient = await identityToRecipient(identity)
})
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'tenon-restore-'))
  store = await openInstallStore({ dir: join(base, 'old'), key: randomBytes(32) })
})
afterEach(async () => {
  await store.close()
  await rm(base, { recursive: true })
})

async function sealTo(to: string, value: string | Uint8Array): Promise<Uint8Array> {
  const encrypter = new Encrypter()
  encrypter.addRecipient(to)
  return encrypter.encrypt(value)
}

async function contentOf(of: InstallStore): Promise<unknown[]> {
  const content: unknown[] = []
  for (const kind of STORE_KINDS) {
    for (const { name } of await of.list(kind)) {
      for (const { version, at } of await of.history(kind, name)) {
        content.push({ kind, name, version, at, value: await of.getVersion(kind, name, version) })
      }
    }
  }
  return content
}

describe('sealed secrets', () => {
  it('open with the identity in the store, which stays the same', async () => {
    const { recipient: to, unseal } = await openSealing(store)
    expect(await unseal(await sealTo(to, 'pässword\n'))).toBe('pässword\n')
    expect((await openSealing(store)).recipient).toBe(to)
  })

  it('are refused when changed, cut short, sealed to somebody else, or not text', async () => {
    const { recipient: to, unseal } = await openSealing(store)
    const sealed = await sealTo(to, 'password')
    const changed = Uint8Array.from(sealed)
    changed[changed.length - 1]! ^= 1
    const bad = [changed, sealed.subarray(0, -1), await sealTo(recipient, 'password'), new Uint8Array()]
    for (const ciphertext of [...bad, await sealTo(to, Uint8Array.of(0xff, 0xfe))]) {
      await expect(unseal(ciphertext)).rejects.toMatchObject({ code: 'sealed_unreadable' })
    }
  })

  it('can also be set past the server, under a name that is safe in a path', async () => {
    expect(await setSecret(store, 'db-password', 'hunter2')).toEqual({ version: 1 })
    expect(text(await store.get('secret', 'db-password'))).toBe('hunter2')
    await expect(setSecret(store, '../x', 'y')).rejects.toMatchObject({ code: 'store_bad_name' })
  })
})

describe('an agent whose disk is gone', () => {
  it('is replaced from an export: everything is back, and old ciphertexts still open', async () => {
    const { recipient: to } = await openSealing(store)
    const ciphertext = await sealTo(to, 'sent earlier')
    for (const value of ['one', 'two', 'three']) await store.put('state', 'db', bytes(value))
    await store.put('output', 'web', randomBytes(200_000))
    await setSecret(store, 'password', 'hunter2')
    await store.put('meta', 'gone', bytes('x'))
    await store.remove('meta', 'gone')
    const before = await contentOf(store)
    const file = await exportStore(store, [recipient])

    const at = { dir: join(base, 'new'), key: randomBytes(32) }
    const { records } = await restoreStore({ file, identity, ...at })
    expect(records).toBe(before.length)
    const restored = await openInstallStore(at)
    expect(await contentOf(restored)).toEqual(before)
    const sealing = await openSealing(restored)
    expect(sealing.recipient).toBe(to)
    expect(await sealing.unseal(ciphertext)).toBe('sent earlier')
    expect(await restored.put('state', 'db', bytes('four'))).toEqual({ version: 4 })
    await restored.close()
  })

  it('can be replaced by each of several recipients and by nobody else', async () => {
    const second = await generateX25519Identity()
    const file = await exportStore(store, [recipient, await identityToRecipient(second)])
    const key = randomBytes(32)
    await restoreStore({ file, identity, dir: join(base, 'a'), key })
    await restoreStore({ file, identity: `${second}\n`, dir: join(base, 'b'), key })
    for (const wrong of [await generateX25519Identity(), 'AGE-SECRET-KEY-1NONSENSE']) {
      const attempt = restoreStore({ file, identity: wrong, dir: join(base, 'c'), key })
      await expect(attempt).rejects.toMatchObject({ code: 'export_wrong_identity' })
    }
    expect(await readdir(base)).not.toContain('c')
  })

  it('is not replaced from a file that was cut short or changed; nothing is written', async () => {
    await store.put('state', 'db', bytes('content'))
    const file = await exportStore(store, [recipient])
    const dir = join(base, 'new')
    const attempt = (bad: Uint8Array) => restoreStore({ file: bad, identity, dir, key: randomBytes(32) })
    const coded = { code: expect.stringMatching(/^export_(corrupt|wrong_identity)$/) as unknown }
    await fc.assert(
      fc.asyncProperty(
        fc.nat(file.length - 1),
        fc.integer({ min: 1, max: 255 }),
        async (position, change) => {
          const changed = Uint8Array.from(file)
          changed[position]! ^= change
          await expect(attempt(changed)).rejects.toMatchObject(coded)
          await expect(attempt(file.subarray(0, position))).rejects.toMatchObject(coded)
        },
      ),
      { numRuns: 60 },
    )
    expect(await readdir(base)).toEqual(['old'])
  })

  it('is not replaced from an age file that holds something else', async () => {
    const exported = new Decrypter()
    exported.addIdentity(identity)
    await store.put('state', 'db', bytes('content'))
    const inside = await exported.decrypt(await exportStore(store, [recipient]), 'text')
    const [head, record] = inside.split('\n')
    const bad = ['', 'hello', `${head}\n`, `${head}\n${record}\n${record}\n`, inside.replace('"db"', '""')]
    const twice = `${head!.replace('"records":1', '"records":2')}\n${record}\n${record}\n`
    for (const content of [...bad, twice]) {
      const file = await sealTo(recipient, content)
      const attempt = restoreStore({ file, identity, dir: join(base, 'new'), key: randomBytes(32) })
      await expect(attempt).rejects.toMatchObject({ code: 'export_corrupt' })
    }
  })

  it('is replaced from an export of a later version, unless it holds more than the agent knows', async () => {
    const exported = new Decrypter()
    exported.addIdentity(identity)
    await store.put('state', 'db', bytes('content'))
    const inside = await exported.decrypt(await exportStore(store, [recipient]), 'text')
    const restore = async (content: string, name: string) =>
      restoreStore({
        file: await sealTo(recipient, content),
        identity,
        dir: join(base, name),
        key: randomBytes(32),
      })
    expect(await restore(inside.replaceAll('{', '{"later":{"is":"better"},'), 'a')).toMatchObject({
      records: 1,
    })
    for (const later of [
      inside.replace('"kind":"state"', '"kind":"dream"'),
      inside.replace('install-store/1', 'install-store/2'),
    ])
      await expect(restore(later, 'b')).rejects.toMatchObject({
        code: 'export_newer',
        message: expect.stringMatching(
          /too old for the export: it (holds records of the kind dream|has the format .*\/2)\. Restore it with an agent/,
        ) as unknown,
      })
    expect(await readdir(base)).not.toContain('b')
  })

  it('keeps what it has: a restore into a store that is not empty is refused', async () => {
    const at = { dir: join(base, 'used'), key: randomBytes(32) }
    const used = await openInstallStore(at)
    await used.put('state', 'db', bytes('mine'))
    const file = await exportStore(store, [recipient])
    await expect(restoreStore({ file, identity, ...at })).rejects.toMatchObject({ code: 'store_locked' })
    await used.close()
    await expect(restoreStore({ file, identity, ...at })).rejects.toMatchObject({ code: 'store_not_empty' })
    const again = await openInstallStore(at)
    expect(text(await again.get('state', 'db'))).toBe('mine')
    await again.close()
  })

  it('does not start from a restore that was cut short, and can run it again', async () => {
    await store.put('state', 'db', bytes('content'))
    const file = await exportStore(store, [recipient])
    const at = { dir: join(base, 'new'), key: randomBytes(32) }
    await restoreStore({ file, identity, ...at })
    await writeFile(join(at.dir, 'restoring'), '')
    await expect(openInstallStore(at)).rejects.toMatchObject({ code: 'store_corrupt' })
    await restoreStore({ file, identity, ...at })
    const restored = await openInstallStore(at)
    expect(await contentOf(restored)).toEqual(await contentOf(store))
    await restored.close()
  })
})

describe('an export', () => {
  it('is for named, well-formed recipients', async () => {
    for (const recipients of [[], ['nonsense'], [recipient, `${recipient}x`]]) {
      const attempt = exportStore(store, recipients)
      await expect(attempt).rejects.toMatchObject({ code: 'export_bad_recipient' })
    }
  })

  it('shows nothing of what is inside', async () => {
    await setSecret(store, 'the-plain-name', 'the-plain-value')
    expect(Buffer.from(await exportStore(store, [recipient])).toString('latin1')).not.toContain('the-plain')
  })
})
