import { copyFile, mkdir, mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { packFolderToFile } from '@tenon/oci'
import { z } from 'zod'
import type { ImageSources } from '../build/image-sources.ts'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { readChart, readYamlFile, type Chart, type ChartDependency } from './chart.ts'
import { fetchChart } from './chart-repository.ts'
import { helmIgnore } from './helmignore.ts'
import { unpackChart } from './unpack-chart.ts'

export interface VendoredDependency {
  name: string
  version: string
  from: string
}

const MAX_DEPTH = 8

const lockFile = z.looseObject({
  dependencies: z.array(
    z.looseObject({ name: z.string(), version: z.string(), repository: z.string().optional() }),
  ),
})

/** Puts every chart that this one needs into its `charts` folder, so that nothing is fetched where it is installed. */
export async function vendorDependencies(
  context: OperationContext,
  sources: ImageSources,
  chart: Chart,
  root: string,
  depth = 0,
): Promise<VendoredDependency[]> {
  if (depth > MAX_DEPTH) throw missing(chart.name, 'charts depend on each other in a circle')
  const charts = join(chart.folder, 'charts')
  const locked = await readLock(chart)
  const vendored: VendoredDependency[] = []
  for (const dependency of chart.dependencies) {
    const present = await presentVersion(context, charts, dependency.name)
    if (present !== undefined) {
      vendored.push({ name: dependency.name, version: present, from: 'charts/' })
      continue
    }
    await mkdir(charts, { recursive: true })
    const scratch = await mkdtemp(join(context.workDir, 'dependency-'))
    const done = dependency.repository.startsWith('file://')
      ? await packLocal({ context, sources, chart, root, depth, scratch }, dependency)
      : await fetchRemote({ context, sources, scratch }, dependency, locked)
    await copyFile(done.file, join(charts, `${dependency.name}-${done.version}.tgz`))
    await rm(scratch, { recursive: true, force: true })
    context.log(`dependency ${dependency.name} ${done.version} from ${done.from}`)
    vendored.push({ name: dependency.name, version: done.version, from: done.from })
  }
  return vendored
}

/** A chart beside this one, inside the same source, packed as Helm packs it. */
async function packLocal(work: LocalWork, dependency: ChartDependency): Promise<Done> {
  const { context, sources, chart, root, depth, scratch } = work
  const path = dependency.repository.slice('file://'.length)
  const top = await realpath(root)
  const folder = await realpath(join(chart.folder, path)).catch(() => undefined)
  if (folder === undefined) throw missing(dependency.name, `there is no ${path} beside the chart`)
  if (path.startsWith('/') || !`${folder}${sep}`.startsWith(top + sep)) {
    const message = `The dependency ${dependency.name} at ${path} lies outside the source.`
    throw new PluginError('source_refused', message, 'Move it into the repository or folder that is sent.')
  }
  const local = await readChart(folder)
  await vendorDependencies(context, sources, local, root, depth + 1)
  const file = join(scratch, 'packed.tgz')
  await packChart(local, file)
  return { file, version: local.version, from: `file://${relative(top, folder)}` }
}

async function fetchRemote(
  { context, sources, scratch }: Pick<LocalWork, 'context' | 'sources' | 'scratch'>,
  dependency: ChartDependency,
  locked: Map<string, string>,
): Promise<Done> {
  const { name, repository } = dependency
  if (repository === '') throw missing(name, 'it names no repository and is not in charts/')
  if (/^(@|alias:)/.test(repository))
    throw missing(name, `${repository} is a name that only one machine knows`)
  const version = locked.get(name) ?? dependency.version
  const fetched = await fetchChart(context, sources, { repository, name, version }, scratch)
  // Unpacked only to know that it can be: a chart that is no safe archive is refused here, not in an install.
  await unpackChart(fetched.file, join(scratch, 'checked'))
  return fetched
}

/** The archive as Helm makes it: one folder with the chart's name. */
export async function packChart(chart: Chart, file: string): Promise<{ size: number }> {
  const rules = await readFile(join(chart.folder, '.helmignore'), 'utf8').catch(() => '')
  return packFolderToFile(chart.folder, file, { prefix: chart.name, ignore: helmIgnore(rules) })
}

async function readLock(chart: Chart): Promise<Map<string, string>> {
  const value =
    (await readYamlFile(chart.folder, 'Chart.lock')) ??
    (await readYamlFile(chart.folder, 'requirements.lock'))
  const parsed = lockFile.safeParse(value)
  return new Map(parsed.data?.dependencies.map(({ name, version }) => [name, version]) ?? [])
}

/** Helm takes a folder or an archive of that name in `charts`. */
async function presentVersion(
  context: OperationContext,
  charts: string,
  name: string,
): Promise<string | undefined> {
  const entries = await readdir(charts, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (entry.isDirectory()) {
      const chart = await readChart(join(charts, entry.name)).catch(() => undefined)
      if (chart?.name === name) return chart.version
    }
    if (!entry.isFile() || !entry.name.startsWith(`${name}-`) || !entry.name.endsWith('.tgz')) continue
    const scratch = await mkdtemp(join(context.workDir, 'present-'))
    const chart = await readChart(await unpackChart(join(charts, entry.name), join(scratch, 'chart')))
    await rm(scratch, { recursive: true, force: true })
    if (chart.name === name) return chart.version
  }
  return undefined
}

function missing(name: string, why: string): PluginError {
  const remedy =
    'Run `helm dependency update` and send the chart with its charts folder, or correct Chart.yaml.'
  return new PluginError('dependency_missing', `The dependency ${name} cannot be had: ${why}.`, remedy)
}

interface Done {
  file: string
  version: string
  from: string
}

interface LocalWork {
  context: OperationContext
  sources: ImageSources
  chart: Chart
  root: string
  depth: number
  scratch: string
}
