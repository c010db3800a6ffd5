import { describe, expect, it } from 'vitest'
import type { JobManifest, Json } from '@tenon/core'
import type { InstallStore } from '../store/install-store.ts'
import { createSecretSource } from './absent-secrets.ts'

/** The two calls that matter here, over a map; the real store has its own suite. */
function createStore() {
  const values = new Map<string, Uint8Array>()
  let puts = 0
  const store = {
    get: async (_kind: string, name: string) => values.get(name),
    put: async (_kind: string, name: string, bytes: Uint8Array) => {
      values.set(name, bytes)
      return { version: ++puts }
    },
  } as unknown as InstallStore
  return { store, puts: () => puts }
}

const manifest = (absentSecrets: { [name: string]: Json }) =>
  ({ operations: [{ config: { absentSecrets } }] }) as unknown as JobManifest

describe('a secret that the install does not have', () => {
  it('is made once, for all who ask at the same time and later', async () => {
    const { store, puts } = createStore()
    const secretOf = createSecretSource(store)
    const asks = manifest({ db_password: { how: 'generate', format: '' } })
    const made = await Promise.all([secretOf(asks, 'db_password'), secretOf(asks, 'db_password')])
    expect(made[0]).toMatch(/^[\w-]{43}$/)
    expect(made[1]).toBe(made[0])
    expect(await createSecretSource(store)(asks, 'db_password')).toBe(made[0])
    expect(puts()).toBe(1)
  })

  it('has the form that was asked for', async () => {
    const secretOf = createSecretSource(createStore().store)
    const value = await secretOf(manifest({ key: { how: 'generate', format: 'base64' } }), 'key')
    expect(Buffer.from(value ?? '', 'base64')).toHaveLength(32)
  })

  it('is what the vendor preset, and that is not stored', async () => {
    const { store, puts } = createStore()
    expect(await createSecretSource(store)(manifest({ a: { how: 'preset', value: 'x' } }), 'a')).toBe('x')
    expect(puts()).toBe(0)
  })

  it('is absent where the manifest says nothing, or nothing that can be read', async () => {
    const secretOf = createSecretSource(createStore().store)
    expect(await secretOf(manifest({}), 'a')).toBeUndefined()
    expect(await secretOf(manifest({ a: { how: 'guess' } }), 'a')).toBeUndefined()
    expect(await secretOf(manifest({}), 'toString')).toBeUndefined()
  })
})
