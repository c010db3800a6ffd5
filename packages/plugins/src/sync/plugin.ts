import { ANNOTATIONS, type Json, type ManifestArtifact, sizeWords } from '@tenon/core'
import {
  copyArtifact,
  createUploadSessions,
  isDigest,
  isOciError,
  namedInAnnotation,
  type CopyResult,
  type Digest,
  type RegistryClient,
} from '@tenon/oci'
import { asPluginError, errorLine, PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult, Plugin } from '../sdk/plugin.ts'
import { openRegistry, openVendorRegistry, type VendorRegistry } from '../sdk/registry.ts'
import { createProgressTeller, type ProgressTeller } from './progress.ts'
import { requireSignatures } from './verify.ts'

/** Attempts of one artifact in one job; each goes on at the first byte that is missing. */
const ATTEMPTS = 3

const syncPlugin: Plugin = {
  description: {
    name: 'sync',
    version: '1.0.0',
    operations: ['sync'],
    kind: 'node',
    entry: 'builtin',
    configSchema: {},
  },
  operations: { sync },
}
export default syncPlugin

/**
 * Copies artifacts with all that belongs to them, by digest and under the same names, from the vendor registry into
 * the install's own. All are verified before anything of any of them is written.
 */
export async function sync(context: OperationContext): Promise<OperationResult> {
  const { api, operation, signal, job, baseEnv } = context
  if (job.registry === null) throw noInstallRegistry()
  const access = { api, signal, now: Date.now, baseEnv }
  const to = await openRegistry(access, job.registry)
  const vendor = await openVendorRegistry(access)
  const teller = createProgressTeller(api, operation.artifacts.length, access.now)
  const parts: SyncParts = { context, to, vendor, teller }
  const done: Outcome[] = operation.artifacts.map(() => ({ outcome: 'not_started' }))
  let at = 0
  try {
    for (const [index, artifact] of operation.artifacts.entries()) {
      at = index
      await verifyOne(parts, artifact)
    }
    for (const [index, artifact] of operation.artifacts.entries()) {
      at = index
      done[index] = { outcome: 'synced', result: await copyOne(parts, artifact, index) }
    }
  } catch (error) {
    if (signal.aborted) throw error
    const known = asPluginError(error)
    context.log(errorLine(known))
    done[at] = { outcome: 'failed', code: known.code }
    const data = { code: known.code, artifacts: facts(operation.artifacts, done) }
    return { ok: false, message: `${known.message} ${known.remedy}`, data }
  }
  await teller.finish()
  return summarize(operation.artifacts, done)
}

interface SyncParts {
  context: OperationContext
  to: RegistryClient
  vendor: VendorRegistry
  teller: ProgressTeller
}

type Outcome =
  | { outcome: 'not_started' }
  | { outcome: 'synced'; result: CopyResult }
  | { outcome: 'failed'; code: string }

async function verifyOne({ context, vendor }: SyncParts, artifact: ManifestArtifact): Promise<void> {
  const { signal, job } = context
  const { repository } = artifact
  const digest = digestOf(artifact)
  const keys = new Map(Object.entries(job.serverKeys ?? {}))
  const { keyIds } = await persist(vendor, signal, () =>
    requireSignatures({ client: vendor.client, repository, digest, keys, signal }),
  )
  context.log(`${repository}@${digest}: signed by ${keyIds.join(', ')}`)
}

async function copyOne(parts: SyncParts, artifact: ManifestArtifact, index: number): Promise<CopyResult> {
  const { context, to, vendor, teller } = parts
  const { signal, job } = context
  const { repository } = artifact
  const digest = digestOf(artifact)
  const result = await persist(vendor, signal, () =>
    copyArtifact({
      from: { client: vendor.client, repository },
      to: { client: to, repository },
      digest,
      referrers: true,
      named: namedInAnnotation(ANNOTATIONS.closure),
      limit: vendor.limit,
      ...(job.cacheDir === undefined ? {} : { sessions: createUploadSessions(job.cacheDir) }),
      signal,
      onProgress: (progress) => teller.tell(index, progress),
    }),
  )
  context.log(
    `${repository}@${digest}: ${sizeWords(result.transferredBytes)} copied, ${sizeWords(result.skippedBytes)} were there already`,
  )
  return result
}

function facts(artifacts: ManifestArtifact[], done: Outcome[]): { [key: string]: Json }[] {
  return artifacts.map(({ name, repository, digest }, index) => {
    const one = done[index] ?? { outcome: 'not_started' }
    return {
      name,
      repository,
      digest,
      outcome: one.outcome,
      ...(one.outcome === 'failed' ? { code: one.code } : {}),
      ...(one.outcome === 'synced'
        ? {
            mediaType: one.result.mediaType,
            manifests: one.result.manifests,
            bytesCopied: one.result.transferredBytes,
            bytesSkipped: one.result.skippedBytes,
          }
        : {}),
    }
  })
}

function summarize(artifacts: ManifestArtifact[], done: Outcome[]): OperationResult {
  const bytes = done.reduce(
    (sum, one) => sum + (one.outcome === 'synced' ? one.result.transferredBytes : 0),
    0,
  )
  return {
    ok: true,
    message: `${artifacts.length === 1 ? '1 artifact is' : `${artifacts.length} artifacts are`} in the install registry, ${sizeWords(bytes)} copied`,
    data: { artifacts: facts(artifacts, done) },
  }
}

/** Once more with a new credential when the old one was refused, and again after a connection that broke. */
async function persist<T>(vendor: VendorRegistry, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      const isWorthIt = isOciError(error, 'UNAUTHORIZED') || isOciError(error, 'UNAVAILABLE')
      if (signal.aborted || !isWorthIt || attempt >= ATTEMPTS) throw error
      vendor.forget()
    }
  }
}

function digestOf(artifact: ManifestArtifact): Digest {
  if (isDigest(artifact.digest)) return artifact.digest
  throw new PluginError('config_invalid', `${artifact.digest} is no digest.`, 'Make the manifest again.')
}

function noInstallRegistry(): PluginError {
  const remedy = "Check the agent's TENON_REGISTRY_URL and that the install registry runs."
  return new PluginError('registry_missing', 'There is no install registry to sync into.', remedy)
}
