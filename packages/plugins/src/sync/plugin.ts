import { copyArtifact, isDigest, isOciError, type CopyResult, type Digest } from '@tenon/oci'
import type { ManifestArtifact } from '@tenon/core'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult, Plugin } from '../sdk/plugin.ts'
import { openRegistry, openVendorRegistry } from '../sdk/registry.ts'
import { createProgressTeller } from './progress.ts'

/** Attempts of one artifact in one job; each goes on at the first blob that is missing. */
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

/** Copies artifacts, by digest and under the same names, from the vendor registry into the install's own. */
export async function sync(context: OperationContext): Promise<OperationResult> {
  const { api, operation, signal, job } = context
  if (job.registry === null) throw noInstallRegistry()
  const access = { api, signal, now: Date.now }
  const to = await openRegistry(access, job.registry)
  const vendor = await openVendorRegistry(access)
  const teller = createProgressTeller(api, operation.artifacts.length, access.now)
  const copied: CopyResult[] = []
  for (const [index, artifact] of operation.artifacts.entries()) {
    const { repository } = artifact
    const digest = digestOf(artifact)
    const result = await persist(
      () => vendor.forget(),
      signal,
      () =>
        copyArtifact({
          from: { client: vendor.client, repository },
          to: { client: to, repository },
          digest,
          signal,
          onProgress: (progress) => teller.tell(index, progress),
        }),
    )
    context.log(
      `${repository}@${digest}: ${result.transferredBytes} bytes copied, ${result.skippedBytes} were there already`,
    )
    copied.push(result)
  }
  await teller.finish()
  return summarize(operation.artifacts, copied)
}

function summarize(artifacts: ManifestArtifact[], copied: CopyResult[]): OperationResult {
  const list = copied.map((result, index) => ({
    name: artifacts[index]?.name ?? '',
    repository: artifacts[index]?.repository ?? '',
    digest: result.digest,
    mediaType: result.mediaType,
    bytesCopied: result.transferredBytes,
    bytesSkipped: result.skippedBytes,
  }))
  const bytes = list.reduce((sum, each) => sum + each.bytesCopied, 0)
  return {
    ok: true,
    message: `${list.length} artifacts are in the install registry, ${bytes} bytes were copied`,
    data: { artifacts: list },
  }
}

/** Once more with a new credential when the old one was refused, and again after a connection that broke. */
async function persist(
  forget: () => void,
  signal: AbortSignal,
  work: () => Promise<CopyResult>,
): Promise<CopyResult> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      const isWorthIt = isOciError(error, 'UNAUTHORIZED') || isOciError(error, 'UNAVAILABLE')
      if (signal.aborted || !isWorthIt || attempt >= ATTEMPTS) throw error
      forget()
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
