import { z } from 'zod'
import { closeImages } from '../deploy/closure.ts'
import { knownImages } from '../deploy/images.ts'
import { toolFailed } from '../deploy/run-tool.ts'
import { parseObjects, type KubeObject } from '../kubernetes/objects.ts'
import { withProtocols } from '../kubernetes/ports.ts'
import { valuesArgs, type Chart, type Helm } from './helm.ts'

const dryRun = z.looseObject({
  manifest: z.string(),
  hooks: z.array(z.looseObject({ manifest: z.string() })).nullish(),
})

export interface RenderedChart {
  objects: KubeObject[]
  hooks: KubeObject[]
  crds: KubeObject[]
  images: string[]
}

/** What the chart makes of its values on this cluster, every image pointed at the install registry. */
export async function renderChart(helm: Helm, chart: Chart, isPending: boolean): Promise<RenderedChart> {
  const values = await valuesArgs(helm.work, chart)
  const { objects, hooks } = isPending
    ? await renderAside(helm, chart, values)
    : await renderOverRelease(helm, chart, values)
  const crds = parseObjects(await helm.must(['show', 'crds', chart.folder]), 'the CRDs of the chart')
  const known = await knownImages(helm.work, helm.work.config)
  // Helm makes whatever lies in crds/, definitions or not.
  const all = closeImages([...withProtocols([...objects, ...hooks]), ...crds], known)
  const closed = all.objects
  const afterHooks = objects.length + hooks.length
  return {
    objects: closed.slice(0, objects.length),
    hooks: closed.slice(objects.length, afterHooks),
    crds: closed.slice(afterHooks),
    images: all.images,
  }
}

async function renderOverRelease(helm: Helm, chart: Chart, values: string[]) {
  const owns = helm.work.component.take_ownership ? ['--take-ownership'] : []
  const args = [
    'upgrade',
    '--install',
    helm.release,
    chart.folder,
    ...values,
    ...owns,
    ...helm.merge,
    '--dry-run=server',
    '-o',
    'json',
  ]
  const end = await helm.run(args)
  if (end.code !== 0) throw toolFailed({ program: 'helm', args: ['render'] }, end)
  const answer = dryRun.parse(JSON.parse(end.stdout))
  const hooks = (answer.hooks ?? []).flatMap(({ manifest }) => parseObjects(manifest, 'a hook of the chart'))
  return { objects: parseObjects(answer.manifest, 'the rendered chart'), hooks }
}

/** Helm renders nothing over a release that another operation left half done; a plan must not touch that. */
async function renderAside(helm: Helm, chart: Chart, values: string[]) {
  const args = ['template', helm.release, chart.folder, ...values, '--is-upgrade', '--dry-run=server']
  const all = parseObjects(await helm.must(args), 'the rendered chart')
  const isHook = ({ metadata }: KubeObject) => metadata.annotations?.['helm.sh/hook'] !== undefined
  return { objects: all.filter((object) => !isHook(object)), hooks: all.filter(isHook) }
}
