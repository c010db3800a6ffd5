import { z } from 'zod'

/** OpenTofu and Terraform read the same modules and states; plans and the names of their providers are each one's own. */
const ENGINES = ['tofu', 'terraform'] as const
export type EngineName = (typeof ENGINES)[number]

/** Where each of them takes a provider from whose source names no host. */
const REGISTRIES = { tofu: 'registry.opentofu.org', terraform: 'registry.terraform.io' } as const

export const engineId = z.object({ name: z.enum(ENGINES), version: z.string() })
export type EngineId = z.infer<typeof engineId>

const versionAnswer = z.looseObject({ terraform_version: z.string() })

/** OpenTofu calls its own version by the same name. */
export function readVersion(text: string): string {
  return versionAnswer.parse(JSON.parse(text)).terraform_version
}

/**
 * In which order the engines are looked for: `tofu` first, unless the providers that are pinned come from Terraform's
 * registry, since a provider without a host is another one for each engine.
 */
export function engineOrder(providerHosts: readonly string[]): EngineName[] {
  const isTerraforms =
    providerHosts.includes(REGISTRIES.terraform) && !providerHosts.includes(REGISTRIES.tofu)
  return isTerraforms ? ['terraform', 'tofu'] : ['tofu', 'terraform']
}

/** The hosts that a `.terraform.lock.hcl` names. */
export function lockedHosts(lock: string): string[] {
  return [...lock.matchAll(/^provider "([^"/]+)\//gm)].map(([, host = '']) => host)
}

export function shownEngine({ name, version }: EngineId): string {
  return `${name} ${version}`
}

/** Said where the engine whose registry the pinned names are of is not at hand; what then fails is the engine's to tell. */
export function foreignProviders(name: EngineName, providerHosts: readonly string[]): string | undefined {
  const own = REGISTRIES[name]
  const others = Object.values(REGISTRIES).filter((host) => host !== own && providerHosts.includes(host))
  if (others.length === 0 || providerHosts.includes(own)) return undefined
  return `note: the providers are pinned by their names in ${others[0]}, and this job has ${name} only; if it does not find them, lock the source with ${name} and build again`
}
