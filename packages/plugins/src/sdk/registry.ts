import { createRegistryClient, type RegistryClient } from '@tenon/oci'
import type { JobContext } from '@tenon/protocol'
import { PluginError } from './errors.ts'
import type { JobApi, RegistryCredential } from './job-api.ts'

/** The agent renews what it hands out; asking again this often costs one call on a local socket. */
const CONTEXT_LIFE_MS = 60_000

export interface RegistryAccess {
  api: JobApi
  signal: AbortSignal
  now: () => number
}

/** The registry that plugins and artifacts are read from; a job without one asks for the vendor's. */
export async function openRegistry(
  access: RegistryAccess,
  registry: JobContext['registry'],
): Promise<RegistryClient> {
  if (registry === null) return (await openVendorRegistry(access)).client
  let known = { bearer: registry.bearer, at: access.now() }
  return createRegistryClient({
    url: registry.url,
    signal: access.signal,
    credentials: async () => {
      if (access.now() - known.at >= CONTEXT_LIFE_MS) {
        const again = (await access.api.context()).registry
        if (again === null) throw noRegistry()
        known = { bearer: again.bearer, at: access.now() }
      }
      return { bearer: known.bearer }
    },
  })
}

/** Access to the vendor registry that this job was granted; asked for again before it runs out. */
export async function openVendorRegistry(access: RegistryAccess): Promise<VendorRegistry> {
  let held = await hold(access)
  const client = createRegistryClient({
    url: held.credential.registry,
    signal: access.signal,
    credentials: async () => {
      if (access.now() >= held.until) held = await hold(access)
      return { bearer: held.credential.bearer }
    },
  })
  return { client, forget: () => (held = { ...held, until: 0 }) }
}

/** Given back in the middle of its life, so that no transfer starts with one about to end. */
async function hold(access: RegistryAccess): Promise<{ credential: RegistryCredential; until: number }> {
  const credential = await access.api.registryCredential()
  const left = Date.parse(credential.expiresAt) - access.now()
  return { credential, until: access.now() + Math.max(0, left / 2) }
}

function noRegistry(): PluginError {
  const remedy = 'Check that the sandbox of this install gave its agent a registry.'
  return new PluginError('registry_missing', 'This job has no registry to read from.', remedy)
}

export interface VendorRegistry {
  client: RegistryClient
  /** Makes the next request ask for a new credential, whatever the clock says. */
  forget(): void
}
