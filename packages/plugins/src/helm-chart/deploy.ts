import { join } from 'node:path'
import type { Json } from '@tenon/core'
import { waitForHealth } from '../deploy/health.ts'
import { componentOperation, type Work } from '../deploy/operation.ts'
import { complaintOf } from '../deploy/run-tool.ts'
import { approvedPlan } from '../deploy/saved-plan.ts'
import { ensureNamespace, leaveNamespace } from '../kubernetes/namespace.ts'
import { type KubeObject } from '../kubernetes/objects.ts'
import { look, waitUntilReady, watchObjects } from '../kubernetes/watch.ts'
import { canceled } from '../sdk/errors.ts'
import type { JobOutputs } from '../sdk/job-api.ts'
import type { OperationResult } from '../sdk/plugin.ts'
import { helmConfig, type HelmConfig } from './config.ts'
import { openChart, openHelm, valuesArgs, type Chart, type Helm } from './helm.ts'
import { writeRenderedChart } from './rendered-chart.ts'
import { readRelease, recoverRelease, releaseBase, type Release } from './release.ts'
import { renderChart } from './render.ts'

type Content = { objects: KubeObject[]; hooks: KubeObject[]; crds: KubeObject[] }

export const deploy = componentOperation(helmConfig, async (work): Promise<OperationResult> => {
  const helm = await openHelm(work)
  const chart = await openChart(work)
  await ensureNamespace(helm.cluster, helm.namespace, work.name)
  const recovered = await recoverRelease(helm, await readRelease(helm))
  const before = await readRelease(helm)
  const approved = await approvedPlan(work, async () => releaseBase(before))
  const content = approved ?? (await renderChart(helm, chart, false))
  const problem = (await upgrade(helm, chart, content)) ?? (await settle(helm, content.objects))
  const note = recovered === undefined ? '' : ` ${recovered}`
  if (problem !== undefined) return takeBack(helm, before, content, problem, note)
  const { deployed } = await readRelease(helm)
  const revision = deployed?.revision ?? 0
  return {
    ok: true,
    message: `Revision ${revision} of ${helm.release} runs in ${helm.namespace}.${note}`,
    data: {
      release: helm.release,
      namespace: helm.namespace,
      revision,
      chart: `${chart.name}-${chart.version}`,
    },
    outputs: outputsOf(helm, chart, revision, content.objects),
  }
})

/** Only what names the release: the rest may not be renderable any more. */
export const destroy = componentOperation(
  helmConfig,
  async (work): Promise<OperationResult> => {
    const helm = await openHelm(work)
    const release = await readRelease(helm)
    const args = ['uninstall', helm.release, '--ignore-not-found', '--wait', '--timeout', '4m']
    if (release.history.length > 0) await helm.must(args, { isLogged: true })
    const stays = await leaveNamespace(helm.cluster, helm.namespace, work.name)
    const message =
      release.history.length > 0 ? `Uninstalled ${helm.release}.` : `There was no release ${helm.release}.`
    return { ok: true, message: stays === undefined ? message : `${message} ${stays}`, data: {} }
  },
  ['chart_name', 'namespace', 'storage_driver'],
)

/** Why Helm itself could not do it; a hook that failed is asked for its own words. */
async function upgrade(helm: Helm, chart: Chart, content: Content): Promise<string | undefined> {
  const { work, release } = helm
  const folder = await writeRenderedChart(join(work.workDir, 'rendered-chart'), chart, content)
  const owns = work.component.take_ownership ? ['--take-ownership'] : []
  const limits = ['--history-max', '20', '--timeout', `${Math.floor(waitMs(work) / 1000)}s`]
  const values = await valuesArgs(work, chart)
  const end = await helm.run([
    'upgrade',
    '--install',
    release,
    folder,
    ...values,
    ...owns,
    ...helm.merge,
    ...limits,
  ])
  if (work.signal.aborted) throw canceled()
  if (end.code === 0) return undefined
  const troubles = await look(helm.cluster, [...content.hooks, ...content.objects], helm.namespace)
  const hook = troubles.find(({ patienceMs }) => patienceMs === 0)
  return hook === undefined
    ? `helm said: ${complaintOf(end)}`
    : `${hook.reason} (helm said: ${complaintOf(end)})`
}

async function settle(helm: Helm, objects: readonly KubeObject[]): Promise<string | undefined> {
  const { work, cluster, namespace } = helm
  const timeoutMs = waitMs(work)
  const problem = await waitUntilReady(work, cluster, objects, { namespace, timeoutMs })
  if (problem !== undefined) return problem
  return waitForHealth(work, work.health, {
    cwd: work.workDir,
    env: cluster.env,
    patienceMs: timeoutMs / 2,
    watch: watchObjects(cluster, objects, namespace),
  })
}

/** Back to what was in force before; a first install that did not come up is taken away again. */
async function takeBack(
  helm: Helm,
  before: Release,
  content: Content,
  problem: string,
  note: string,
): Promise<OperationResult> {
  const { work, release, cluster, namespace } = helm
  const { deployed } = before
  work.log(`not well: ${problem}`)
  const failure = (message: string, state: string): OperationResult => ({
    ok: false,
    message: `${message} The reason: ${problem}${note}`,
    data: { release, namespace, reason: problem.slice(0, 1500), state },
  })
  if (deployed === undefined && before.history.length > 0) {
    return failure(
      'The upgrade failed, and no earlier revision was ever in force; it stays as it is.',
      'failed',
    )
  }
  if (deployed === undefined) {
    const end = await helm.run(['uninstall', release, '--ignore-not-found', '--wait', '--timeout', '2m'])
    const message = 'The first install did not become healthy'
    return end.code === 0
      ? failure(`${message}, and was removed.`, 'removed')
      : failure(`${message}, and could not be removed: ${complaintOf(end)}.`, 'failed')
  }
  const { revision } = deployed
  const end = await helm.run(['rollback', release, String(revision), ...helm.merge, '--timeout', '2m'])
  if (end.code !== 0) {
    return failure(
      `The upgrade failed, and the way back to revision ${revision} too: ${complaintOf(end)}.`,
      'failed',
    )
  }
  const timeoutMs = Math.min(120_000, waitMs(work) / 2)
  const after = await waitUntilReady(work, cluster, before.objects, { namespace, timeoutMs })
  const words = `The upgrade failed and was rolled back to revision ${revision}`
  return after === undefined
    ? failure(`${words}, which runs.`, 'rolled-back')
    : failure(`${words}, which is not well either (${after}).`, 'rolled-back')
}

/** Most of the job's time; what is left is for the way back. */
function waitMs(work: Work<HelmConfig>): number {
  return Math.max(10_000, work.manifest.limits.timeoutSeconds * 600)
}

function outputsOf(helm: Helm, chart: Chart, revision: number, objects: readonly KubeObject[]): JobOutputs {
  const open = (value: Json) => ({ sensitive: false, value })
  const services = objects.filter(({ kind }) => kind === 'Service')
  const hosts = services.map(({ metadata }) => {
    const { name, namespace = helm.namespace } = metadata
    return [name, { name, namespace, host: `${name}.${namespace}.svc` }] as const
  })
  return {
    release: open(helm.release),
    namespace: open(helm.namespace),
    revision: open(revision),
    chart: open({ name: chart.name, version: chart.version, app_version: chart.appVersion }),
    services: open(Object.fromEntries(hosts)),
  }
}
