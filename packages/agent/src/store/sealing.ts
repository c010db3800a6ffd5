import { partName } from '@tenon/protocol'
import { Decrypter, generateX25519Identity, identityToRecipient } from 'age-encryption'
import type { InstallStore } from './install-store.ts'
import { StoreError } from './store-error.ts'

const IDENTITY = 'sealing-identity'

/** Opens what clients sealed to this install. The identity never leaves the store. */
export interface Sealing {
  recipient: string
  unseal: (ciphertext: Uint8Array) => Promise<string>
}

/** The identity is made once and kept in the store, so that a restored store still opens old ciphertexts. */
export async function openSealing(store: InstallStore): Promise<Sealing> {
  const identity = (await readIdentity(store)) ?? (await makeIdentity(store))
  const recipient = await identityToRecipient(identity)
  return { recipient, unseal: (ciphertext) => unsealWith(identity, ciphertext) }
}

/** The customer's own way to set a secret, past the server; also where an unsealed one ends. */
export async function setSecret(
  store: InstallStore,
  name: string,
  value: string,
): Promise<{ version: number }> {
  const checked = partName.safeParse(name)
  if (!checked.success) {
    throw new StoreError('store_bad_name', `The name of a secret ${checked.error.issues[0]?.message}.`)
  }
  return store.put('secret', checked.data, new TextEncoder().encode(value))
}

async function readIdentity(store: InstallStore): Promise<string | undefined> {
  const bytes = await store.get('meta', IDENTITY)
  return bytes && new TextDecoder().decode(bytes)
}

async function makeIdentity(store: InstallStore): Promise<string> {
  const identity = await generateX25519Identity()
  await store.put('meta', IDENTITY, new TextEncoder().encode(identity))
  return identity
}

async function unsealWith(identity: string, ciphertext: Uint8Array): Promise<string> {
  const decrypter = new Decrypter()
  decrypter.addIdentity(identity)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      await decrypter.decrypt(ciphertext),
    )
  } catch (cause) {
    throw new StoreError(
      'sealed_unreadable',
      'The sealed value cannot be opened here: it was changed, or sealed to another install. Seal it again.',
      { cause },
    )
  }
}
