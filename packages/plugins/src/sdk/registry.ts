import {
  createRegistryClient,
  createSourceLimit,
  proxyRoutes,
  redeemToken,
  type RegistryClient,
  type SourceLimit,
  type SourceLimitOptions,
} from '@tenon/oci'
import type { JobContext } from '@tenon/protocol'
import { PluginError } from './errors.ts'
import type { JobApi, RegistryCredential } from './job-api.ts'

/** The agent renews what it hands out; asking again this often costs one call on a local socket. */
const CONTEXT_LIFE_MS = 60_000

export interface RegistryAccess {
  api: JobApi
  signal: AbortSignal
  now: () => number
  /** What of the environment programs inherit: it may name proxies. */
  baseEnv: Record<string, string>
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
    routes: proxyRoutes(access.baseEnv),
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
  let renewing: Promise<Held> | undefined
  const renew = () => (renewing ??= hold(access).finally(() => (renewing = undefined)))
  const client = createRegistryClient({
    url: held.credential.registry,
    routes: proxyRoutes(access.baseEnv),
    signal: access.signal,
    credentials: async () => {
      if (access.now() >= held.until) held = await renew()
      return { bearer: held.bearer }
    },
  })
  const limit = createSourceLimit(limitsOf(held.credential))
  return { client, limit, forget: () => (held = { ...held, until: 0 }) }
}

function limitsOf({ pace }: RegistryCredential): SourceLimitOptions {
  if (pace === undefined) return {}
  const { concurrent, bytesPerSecond } = pace
  return { concurrent, ...(bytesPerSecond === undefined ? {} : { bytesPerSecond }) }
}

interface Held {
  credential: RegistryCredential
  bearer: string
  until: number
}

/** Given back in the middle of its life, so that no transfer starts with one about to end. */
async function hold(access: RegistryAccess): Promise<Held> {
  const credential = await access.api.registryCredential()
  const { oneTime } = credential
  if (oneTime === undefined) {
    const left = Date.parse(credential.expiresAt) - access.now()
    return { credential, bearer: credential.bearer, until: access.now() + Math.max(0, left / 2) }
  }
  const { bearer, lifeMs } = await redeemToken({
    url: oneTime.url,
    credential: oneTime,
    routes: proxyRoutes(access.baseEnv),
    signal: access.signal,
    now: access.now,
  })
  return { credential, bearer, until: access.now() + lifeMs / 2 }
}

function noRegistry(): PluginError {
  const remedy = 'Check that the sandbox of this install gave its agent a registry.'
  return new PluginError('registry_missing', 'This job has no registry to read from.', remedy)
}

export interface VendorRegistry {
  client: RegistryClient
  /** What the server wishes to be spared to; for whoever reads many blobs. */
  limit: SourceLimit
  /** Makes the next request ask for a new credential, whatever the clock says. */
  forget(): void
}
