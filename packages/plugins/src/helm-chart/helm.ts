import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Json } from '@tenon/core'
import { MEDIA_TYPES } from '@tenon/protocol'
import { parse } from 'yaml'
import { z } from 'zod'
import type { Work } from '../deploy/operation.ts'
import { findTool, runTool, toolFailed, type ToolEnd } from '../deploy/run-tool.ts'
import { openCluster, type Cluster } from '../kubernetes/cluster.ts'
import { PluginError } from '../sdk/errors.ts'
import type { HelmConfig } from './config.ts'
import { setValues } from './values.ts'

export interface Helm {
  work: Work<HelmConfig>
  cluster: Cluster
  release: string
  namespace: string
  /**
   * Helm 4 would leave the merge to the API server, where a field that goes can leave its defaults behind (1.20 then
   * refuses a probe without a handler). Both versions merge as Helm 3 does.
   */
  merge: string[]
  run(args: string[], options?: { isLogged?: boolean }): Promise<ToolEnd>
  must(args: string[], options?: { isLogged?: boolean }): Promise<string>
}

const historyAnswer = z.array(z.looseObject({ revision: z.number(), status: z.string() }))
export type Revision = z.infer<typeof historyAnswer>[number]

/** Helm 3 or 4, whichever the job has, with nothing of the machine's own settings. */
export async function openHelm(work: Work<HelmConfig>): Promise<Helm> {
  const program = await findTool(work, 'helm')
  const cluster = await openCluster(work)
  const { chart_name: release, namespace, storage_driver } = work.component
  const at = (name: string) => join(work.workDir, 'helm', name)
  const env = {
    ...cluster.env,
    HELM_CACHE_HOME: at('cache'),
    HELM_CONFIG_HOME: at('config'),
    HELM_DATA_HOME: at('data'),
    HELM_DRIVER: storage_driver.startsWith('configmap') ? 'configmap' : 'secret',
    HELM_NAMESPACE: namespace,
  }
  const timeoutMs = work.manifest.limits.timeoutSeconds * 1000
  const run: Helm['run'] = (args, options = {}) =>
    runTool(work, { program, args, cwd: work.workDir, env, timeoutMs, ...options })
  const must: Helm['must'] = async (args, options = {}) => {
    const end = await run(args, options)
    if (end.code === 0) return end.stdout
    throw toolFailed({ program, args }, end)
  }
  const version = (await must(['version', '--short'])).trim()
  work.log(`helm ${version}`)
  const merge = version.startsWith('v3.') ? [] : ['--server-side=false']
  return { work, cluster, release, namespace, merge, run, must }
}

/** Oldest first; empty when there is no such release. */
export async function historyOf({ run, release }: Helm): Promise<Revision[]> {
  const args = ['history', release, '-o', 'json', '--max', '256']
  const end = await run(args)
  if (end.code === 0)
    return historyAnswer.parse(JSON.parse(end.stdout)).toSorted((a, b) => a.revision - b.revision)
  if (/release: not found/.test(end.stderr)) return []
  throw toolFailed({ program: 'helm', args }, end)
}

export interface Chart {
  folder: string
  name: string
  version: string
  appVersion: string
}

const chartFile = z.looseObject({
  name: z.string(),
  version: z.coerce.string(),
  appVersion: z.coerce.string().nullish(),
})

/** Helm's own artifact: one folder, named as the chart. */
export async function openChart(work: Work<HelmConfig>): Promise<Chart> {
  const root = await work.artifact('artifact', { artifactType: MEDIA_TYPES.helmConfig })
  for (const entry of await readdir(root, { withFileTypes: true })) {
    const folder = join(root, entry.name)
    const text =
      entry.isDirectory() && (await readFile(join(folder, 'Chart.yaml'), 'utf8').catch(() => undefined))
    if (typeof text !== 'string') continue
    const { name, version, appVersion } = chartFile.parse(parse(text))
    return { folder, name, version, appVersion: appVersion ?? '' }
  }
  throw new PluginError('artifact_invalid', 'The artifact holds no chart.', 'Build the component again.')
}

/** Values as files that only this job can read, in the order in which a later one wins: `-f` arguments. */
export async function valuesArgs(work: Work<HelmConfig>, chart: Chart): Promise<string[]> {
  const at = join(work.workDir, 'values')
  await mkdir(at, { recursive: true, mode: 0o700 })
  const contents: string[] = []
  for (const { contents: text, path } of work.component.values_file) {
    if (text !== undefined) contents.push(text)
    else if (path !== undefined) contents.push(await readInside(chart.folder, path))
  }
  const own = setValues(work.component.values, (text) => work.masker.isSecret(text))
  contents.push(JSON.stringify(own))
  const overrides = work.overrides['helm_values'] as Json | undefined
  if (typeof overrides === 'string') contents.push(overrides)
  else if (overrides !== undefined) contents.push(JSON.stringify(overrides))
  const args: string[] = []
  for (const [index, text] of contents.entries()) {
    const file = join(at, `${index + 1}.yaml`)
    await writeFile(file, `${text}\n`, { mode: 0o600 })
    args.push('-f', file)
  }
  return args
}

async function readInside(folder: string, path: string): Promise<string> {
  const isInside = !path.startsWith('/') && !path.split('/').includes('..')
  const text = isInside ? await readFile(join(folder, path), 'utf8').catch(() => undefined) : undefined
  if (text !== undefined) return text
  const message = `The chart has no values file ${JSON.stringify(path)}.`
  throw new PluginError('config_invalid', message, 'Name a file of the chart, or write `contents`.')
}
