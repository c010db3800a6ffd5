import { mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import { imageOfParts, imagesInManifests, type FoundImage } from '../build/images-in-manifests.ts'
import { neutralise } from '../build/neutralise.ts'
import { endOf, findTool } from '../build/run-tool.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { readChart, readYamlFile, type Chart } from './chart.ts'
import { unpackChart } from './unpack-chart.ts'

export interface ChartImages {
  found: FoundImage[]
  closureFrom: 'rendered' | 'static'
}

export interface GivenValues {
  release: string
  namespace: string
  /** Texts in YAML; later ones win. */
  files: string[]
}

/** The images of the chart as Helm renders it with the given values; where that cannot be, as its files name them. */
export async function imagesOfChart(
  context: OperationContext,
  chart: Chart,
  given: GivenValues,
): Promise<ChartImages> {
  const files = given.files.map(neutralise)
  const helm = await findTool(context, 'helm', 'helm3', 'helm4')
  const why =
    helm === undefined ? 'this job has no helm' : await render(context, helm, chart, { ...given, files })
  if (typeof why !== 'string') return { found: why, closureFrom: 'rendered' }
  context.log(`warning: ${why}; images are looked for in values and templates, and some may be missed`)
  return { found: await staticImages(context, chart, files), closureFrom: 'static' }
}

async function render(
  context: OperationContext,
  helm: string,
  chart: Chart,
  given: GivenValues,
): Promise<FoundImage[] | string> {
  const folder = await mkdtemp(join(context.workDir, 'render-'))
  const args = ['template', given.release, chart.folder, '--namespace', given.namespace]
  for (const [index, text] of given.files.entries()) {
    const file = join(folder, `values-${index + 1}.yaml`)
    await writeFile(file, text)
    args.push('--values', file)
  }
  const names = ['HELM_CACHE_HOME', 'HELM_CONFIG_HOME', 'HELM_DATA_HOME', 'HOME']
  const env = {
    ...Object.fromEntries(names.map((name) => [name, join(folder, 'home')])),
    KUBECONFIG: '/dev/null',
  }
  await mkdir(join(folder, 'home'))
  const end = await endOf(context, { program: helm, args, cwd: folder, env })
  if (end.code !== 0) return `helm cannot render the chart (${end.complaint})`
  context.log(`rendered the chart with ${given.files.length} files of values`)
  return imagesInManifests(end.stdout, chart.name)
}

/** What values and templates name outright; a tag that is left out is the chart's appVersion, as charts do. */
async function staticImages(context: OperationContext, chart: Chart, files: string[]): Promise<FoundImage[]> {
  let values = asRecord(await readYamlFile(chart.folder, 'values.yaml'))
  for (const text of files) values = merge(values, asRecord(tolerantParse(text)))
  return imagesBelow(context, chart, values, chart.name)
}

async function imagesBelow(
  context: OperationContext,
  chart: Chart,
  values: Values,
  title: string,
): Promise<FoundImage[]> {
  const subcharts = await readSubcharts(context, chart)
  const names = new Set(subcharts.flatMap(({ keys }) => keys))
  const own = Object.fromEntries(Object.entries(values).filter(([key]) => !names.has(key)))
  const found = [...imagesInValues(own, chart.appVersion, `${title}/values.yaml`)]
  found.push(...(await imagesInTemplates(join(chart.folder, 'templates'), `${title}/templates`)))
  for (const { chart: sub, keys } of subcharts) {
    const defaults = asRecord(await readYamlFile(sub.folder, 'values.yaml'))
    for (const key of keys) {
      const given = asRecord(values[key])
      if (given['enabled'] === false) continue
      found.push(...(await imagesBelow(context, sub, merge(defaults, given), `${title}/charts/${key}`)))
    }
  }
  return found
}

function imagesInValues(value: unknown, appVersion: string | undefined, where: string): FoundImage[] {
  const found: FoundImage[] = []
  const visit = (node: unknown, path: string): void => {
    if (typeof node !== 'object' || node === null) return
    for (const [key, inner] of Object.entries(node)) {
      const at = Array.isArray(node) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`
      const isImage = /image$/i.test(key)
      const parts = isImage ? imageOfParts(asRecord(inner), appVersion) : undefined
      const isWritten = key === 'image' && typeof inner === 'string' && /[/:]/.test(inner)
      const image = parts ?? (isWritten ? inner : undefined)
      if (image !== undefined) found.push({ image, where: `${where}: ${at}` })
      visit(inner, at)
    }
  }
  visit(value, '')
  return found
}

/** Written out, in a line of its own or between braces; one that a template makes does not match. */
const LITERAL_IMAGE = /(?:^|[\s{,-])image:[ \t]*["']?([^\s"'{},#]+)["']?(?=[\s,}]|$)/gm

async function imagesInTemplates(folder: string, title: string): Promise<FoundImage[]> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const found: FoundImage[] = []
  for (const file of files.filter((entry) => entry.isFile() && /\.ya?ml$/.test(entry.name))) {
    const path = join(file.parentPath, file.name)
    const text = await readFile(path, 'utf8')
    for (const match of text.matchAll(LITERAL_IMAGE)) {
      found.push({ image: match[1] ?? '', where: `${title}${path.slice(folder.length)}` })
    }
  }
  return found
}

/** Those in `charts`, folder or archive, with the keys under which the parent's values speak to them. */
async function readSubcharts(
  context: OperationContext,
  chart: Chart,
): Promise<{ chart: Chart; keys: string[] }[]> {
  const charts = join(chart.folder, 'charts')
  const entries = await readdir(charts, { withFileTypes: true }).catch(() => [])
  const found: { chart: Chart; keys: string[] }[] = []
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(charts, entry.name)
    if (entry.name.startsWith('.') || entry.name.startsWith('_')) continue
    const isArchive = entry.isFile() && entry.name.endsWith('.tgz')
    if (!isArchive && !entry.isDirectory()) continue
    const scratch = isArchive ? join(await mkdtemp(join(context.workDir, 'subchart-')), 'chart') : ''
    const sub = await readChart(isArchive ? await unpackChart(path, scratch) : path)
    const named = chart.dependencies.filter(({ name }) => name === sub.name)
    const keys = named.map(({ name, alias }) => alias ?? name)
    found.push({ chart: sub, keys: keys.length === 0 ? [sub.name] : keys })
  }
  return found
}

/** Values that are templates of the install may be no YAML even without their expressions. */
function tolerantParse(text: string): unknown {
  try {
    return parse(text, { uniqueKeys: false, maxAliasCount: 1000, logLevel: 'silent' })
  } catch {
    return undefined
  }
}

type Values = Record<string, unknown>

function asRecord(value: unknown): Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Values) : {}
}

/** As Helm merges: maps by key, anything else is replaced. */
function merge(base: Values, over: Values): Values {
  const merged = { ...base }
  for (const [key, value] of Object.entries(over)) {
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
    merged[key] = isMap ? merge(asRecord(base[key]), value as Values) : value
  }
  return merged
}
