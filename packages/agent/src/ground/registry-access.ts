import { readFile } from 'node:fs/promises'
import type { JobManifest } from '@tenon/core'
import { z } from 'zod'
import { AgentError, messageOf } from './errors.ts'
import { postJson, withSlash, type JsonAnswer } from './http.ts'
import type { ProxySettings } from './proxy.ts'

export interface RegistrySettings {
  url: string
  /** Read at each use, so that a rotated key needs no restart. */
  keyFile: string
  /** `host[:port]` by which the nodes of a cluster pull from it, when it is another. */
  nodeAddress?: string | undefined
}

export interface RepositoryGrant {
  name: string
  actions: ('pull' | 'push')[]
  /** Only these artifacts, with everything that belongs to them. */
  roots?: string[]
}

/** Pure: a sync writes the repositories that its manifest names, everything else reads the artifacts it names. */
export function grantsFor(manifest: JobManifest): RepositoryGrant[] {
  const named = new Map<string, Set<string>>()
  const name = (repository: string, digest: string) =>
    named.set(repository, (named.get(repository) ?? new Set()).add(digest))
  for (const { plugin, artifacts } of manifest.operations) {
    if (plugin.digest !== null) name(plugin.repository, plugin.digest)
    for (const { repository, digest } of artifacts) name(repository, digest)
  }
  if (manifest.kind === 'sync')
    // Layers that another component has brought already are mounted, not sent again.
    return [
      ...[...named.keys()].map((each): RepositoryGrant => ({ name: each, actions: ['pull', 'push'] })),
      { name: '*', actions: ['pull'] },
    ]
  return [...named].map(([each, roots]) => ({ name: each, actions: ['pull'], roots: [...roots] }))
}

/** A short bearer of the install registry for one job. */
export async function installRegistryBearer(
  settings: RegistrySettings,
  manifest: JobManifest,
  proxy: ProxySettings,
): Promise<string> {
  const { timeoutSeconds, graceSeconds } = manifest.limits
  const ttlSeconds = Math.min(timeoutSeconds + graceSeconds, 86_400)
  return askForBearer(settings, proxy, {
    subject: manifest.jobId,
    ttlSeconds,
    repositories: grantsFor(manifest),
  })
}

/** A short bearer to pull one repository of the install registry, for the engine that runs jobs. */
export async function pullBearer(
  settings: RegistrySettings,
  repository: string,
  proxy: ProxySettings,
): Promise<string> {
  const repositories: RepositoryGrant[] = [{ name: repository, actions: ['pull'] }]
  return askForBearer(settings, proxy, { subject: 'engine', ttlSeconds: 3600, repositories })
}

async function askForBearer(
  settings: RegistrySettings,
  proxy: ProxySettings,
  body: { subject: string; ttlSeconds: number; repositories: RepositoryGrant[] },
): Promise<string> {
  const url = new URL('token', withSlash(settings.url))
  let answer: JsonAnswer
  try {
    const key = (await readFile(settings.keyFile, 'utf8')).trim()
    answer = await postJson(url, body, { proxy, headers: { authorization: `Bearer ${key}` } })
  } catch (error) {
    throw unavailable(messageOf(error), error)
  }
  const parsed = z.object({ bearer: z.string().min(1) }).safeParse(answer.body)
  if (answer.status >= 300 || !parsed.success) throw unavailable(`it answered ${answer.status}`, undefined)
  return parsed.data.bearer
}

function unavailable(why: string, cause: unknown): AgentError {
  return new AgentError(
    'registry_unavailable',
    `The install registry gives no access: ${why}.`,
    'Check that the install registry runs and that TENON_REGISTRY_KEY_FILE holds its key.',
    { cause },
  )
}
