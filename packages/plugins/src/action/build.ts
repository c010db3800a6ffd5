import { cp, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { MEDIA_TYPES } from '@tenon/protocol'
import { z } from 'zod'
import { buildConfig, gitSource, type GitSource } from '../build/config.ts'
import { built, publishFolder, vendorClient } from '../build/publish.ts'
import { settleLinks } from '../build/settle-links.ts'
import { fetchRepository, folderInside } from '../build/source.ts'
import { readConfig } from '../sdk/config.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { sourceFolder } from './source-folder.ts'

const config = buildConfig(
  z.looseObject({
    steps: z
      .array(z.looseObject({ name: z.string(), source: gitSource }))
      .min(1)
      .max(200),
  }),
)

interface Fetched {
  root: string
  url: string
  commit: string
}

/** One folder for each source that the steps name, each repository at one commit for all of them. */
export async function build(context: OperationContext): Promise<OperationResult> {
  const { component, repository } = readConfig(context.operation, config)
  const artifact = join(context.workDir, 'artifact')
  const fetched = new Map<string, Fetched>()
  const sources = new Map<string, { repo: string; ref: string; directory: string; commit: string }>()
  for (const { name, source } of component.steps) {
    context.log(`step ${name}`)
    const place = sourceFolder(source)
    if (sources.has(place)) continue
    const { root, url, commit } = await fetchOnce(context, fetched, source)
    const folder = await folderInside(root, source.directory)
    await settleLinks(folder, root)
    await cp(folder, join(artifact, place), { recursive: true })
    sources.set(place, { repo: url, ref: source.ref, directory: source.directory, commit })
  }
  const published = await publishFolder(context, {
    client: await vendorClient(context),
    repository,
    folder: artifact,
    artifactType: MEDIA_TYPES.action,
  })
  const materials = [...fetched.values()].map(({ url, commit }) => ({
    uri: `git+${url}`.slice(0, 500),
    digest: { gitCommit: commit },
  }))
  return built(published, { sources: [...sources.values()], materials })
}

async function fetchOnce(
  context: OperationContext,
  fetched: Map<string, Fetched>,
  source: GitSource,
): Promise<Fetched> {
  const key = JSON.stringify([source.repo, source.ref])
  const known = fetched.get(key)
  if (known) return known
  const root = join(context.workDir, `repository-${fetched.size + 1}`)
  await mkdir(root)
  const made = { root, ...(await fetchRepository(context, source, root)) }
  fetched.set(key, made)
  return made
}
