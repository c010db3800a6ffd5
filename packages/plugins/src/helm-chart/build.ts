import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { ANNOTATIONS, type Json, sizeWords } from '@tenon/core'
import { pushArtifact } from '@tenon/oci'
import { MEDIA_TYPES } from '@tenon/protocol'
import { z } from 'zod'
import { gatherClosure } from '../build/closure.ts'
import { buildConfig, type BuildSource } from '../build/config.ts'
import { openImageSources, type ImageSources } from '../build/image-sources.ts'
import { built, vendorClient } from '../build/publish.ts'
import { openSource } from '../build/source.ts'
import { readConfig } from '../sdk/config.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { readChart } from './chart.ts'
import { fetchChart } from './chart-repository.ts'
import { packChart, vendorDependencies } from './dependencies.ts'
import { imagesOfChart, type GivenValues } from './images.ts'
import { unpackChart } from './unpack-chart.ts'

const component = z.looseObject({
  chart_name: z.string().optional(),
  namespace: z.string().optional(),
  values: z.record(z.string(), z.json()).default({}),
  values_file: z.array(z.looseObject({ contents: z.string().default('') })).default([]),
  helm_repo: z
    .looseObject({ repo_url: z.string(), chart: z.string(), version: z.string().default('') })
    .optional(),
})
type Component = z.infer<typeof component>

const config = buildConfig(component)

const TITLE = 'org.opencontainers.image.title'

/** Packs a chart with all that it depends on as Helm's own artifact; plain helm pulls and installs it. */
export async function build(context: OperationContext): Promise<OperationResult> {
  const given = readConfig(context.operation, config)
  const sources = await openImageSources(context)
  const { folder, root, record } = await chartFolder(context, sources, given.component, given.source)
  const chart = await readChart(folder)
  context.log(`the chart is ${chart.name} ${chart.version}`)
  const dependencies = await vendorDependencies(context, sources, chart, root)
  const client = await vendorClient(context)
  const { repository } = given
  const { found, closureFrom } = await imagesOfChart(context, chart, valuesOf(given.component))
  const closure = await gatherClosure(context, { client, repository, found, declared: given.images, sources })
  const file = join(context.workDir, 'chart.tgz')
  const layer = await packChart(chart, file)
  const tag = chart.version.replaceAll('+', '_')
  const pushed = await pushArtifact({
    client,
    repository,
    artifactType: MEDIA_TYPES.helmConfig,
    config: { mediaType: MEDIA_TYPES.helmConfig, bytes: Buffer.from(JSON.stringify(chart.metadata)) },
    layers: [
      {
        mediaType: MEDIA_TYPES.helmChart,
        annotations: { [TITLE]: `${chart.name}-${chart.version}.tgz` },
        file,
      },
    ],
    annotations: {
      [TITLE]: chart.name,
      'org.opencontainers.image.version': chart.version,
      ...(closure.length === 0 ? {} : { [ANNOTATIONS.closure]: JSON.stringify(closure) }),
    },
    tag,
    signal: context.signal,
  })
  context.log(`pushed ${repository}:${tag}@${pushed.digest}, ${sizeWords(layer.size)}`)
  const published = { digest: pushed.digest, size: layer.size, repository, mediaType: MEDIA_TYPES.helmConfig }
  return built(published, {
    source: record,
    chart: { name: chart.name, version: chart.version },
    dependencies: dependencies as unknown as Json,
    closure: closure as unknown as Json,
    closureFrom,
  })
}

/** A chart repository where the component names one; else its source. */
async function chartFolder(
  context: OperationContext,
  sources: ImageSources,
  { helm_repo }: Component,
  source: BuildSource | null,
): Promise<{ folder: string; root: string; record: { [key: string]: Json } | null }> {
  if (helm_repo === undefined) return openSource(context, source)
  const isWhole = helm_repo.chart.startsWith('oci://')
  const slash = helm_repo.chart.lastIndexOf('/')
  const scratch = join(context.workDir, 'fetched')
  await mkdir(scratch)
  const wanted = {
    repository: isWhole ? helm_repo.chart.slice(0, slash) : helm_repo.repo_url,
    name: isWhole ? helm_repo.chart.slice(slash + 1) : helm_repo.chart,
    version: helm_repo.version,
  }
  const fetched = await fetchChart(context, sources, wanted, scratch)
  const folder = await unpackChart(fetched.file, join(scratch, 'chart'))
  return { folder, root: folder, record: { chart: fetched.from, version: fetched.version } }
}

/** `values` are Helm's `--set`: a dot leads one level down. They win over the files. */
function valuesOf({ chart_name, namespace, values, values_file }: Component): GivenValues {
  const set = emptyMap()
  for (const [path, value] of Object.entries(values)) {
    const steps = path.split(/(?<!\\)\./).map((step) => step.replaceAll(String.raw`\.`, '.'))
    let at = set
    for (const step of steps.slice(0, -1)) {
      const below = at[step]
      const next =
        typeof below === 'object' && below !== null ? (below as Record<string, unknown>) : emptyMap()
      at[step] = next
      at = next
    }
    at[steps.at(-1) ?? ''] = value
  }
  const files = values_file.map(({ contents }) => contents)
  const name = (text: string | undefined) =>
    text !== undefined && /^[a-z0-9-]{1,53}$/.test(text) ? text : 'release'
  return {
    release: name(chart_name),
    namespace: name(namespace),
    files: Object.keys(set).length === 0 ? files : [...files, JSON.stringify(set)],
  }
}

/** Without a prototype: the names come from a configuration. */
function emptyMap(): Record<string, unknown> {
  return Object.create(null) as Record<string, unknown>
}
