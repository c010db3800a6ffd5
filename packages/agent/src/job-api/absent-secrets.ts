import { randomBytes } from 'node:crypto'
import type { JobManifest } from '@tenon/core'
import { componentJobConfig } from '@tenon/protocol'
import type { InstallStore } from '../store/install-store.ts'

const { absentSecrets } = componentJobConfig.shape
const GENERATED_BYTES = 32

/** A secret of the install; one that it does not have is made or preset where the signed manifest says so. */
export function createSecretSource(store: InstallStore) {
  const making = new Map<string, Promise<string>>()
  const read = async (name: string): Promise<string | undefined> => {
    const bytes = await store.get('secret', name)
    return bytes && new TextDecoder().decode(bytes)
  }
  /** Once, whoever asks: two jobs that need it at the same time get the same. */
  const make = async (name: string, format: string): Promise<string> => {
    const there = await read(name)
    if (there !== undefined) return there
    const value = randomBytes(GENERATED_BYTES).toString(format === 'base64' ? 'base64' : 'base64url')
    await store.put('secret', name, new TextEncoder().encode(value))
    return value
  }
  return async (manifest: JobManifest, name: string): Promise<string | undefined> => {
    const known = await read(name)
    if (known !== undefined) return known
    const rule = ruleFor(manifest, name)
    if (rule === undefined || rule.how === 'preset') return rule?.value
    const made = making.get(name) ?? make(name, rule.format).finally(() => making.delete(name))
    making.set(name, made)
    return made
  }
}

function ruleFor(manifest: JobManifest, name: string) {
  for (const { config } of manifest.operations) {
    const rules = absentSecrets.safeParse(config['absentSecrets']).data
    if (rules !== undefined && Object.hasOwn(rules, name)) return rules[name]
  }
  return undefined
}
