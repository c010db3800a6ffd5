import { componentOperation, type Work } from '../deploy/operation.ts'
import type { Target } from '../kubernetes/component.ts'
import { debugObjects } from '../kubernetes/debug.ts'
import { logsOfObjects } from '../kubernetes/logs.ts'
import { helmConfig, type HelmConfig } from './config.ts'
import { openHelm, type Helm } from './helm.ts'
import { readRelease } from './release.ts'

/** Only what names the release: the rest may not be renderable any more. */
const NAMES = ['chart_name', 'namespace', 'storage_driver']

export const logs = componentOperation(
  helmConfig,
  async (work) => {
    const helm = await openHelm(work)
    return logsOfObjects(targetOf(work, helm), async () => (await readRelease(helm)).objects)
  },
  NAMES,
)

export const debug = componentOperation(
  helmConfig,
  async (work) => {
    const helm = await openHelm(work)
    const { history, objects } = await readRelease(helm)
    for (const { revision, status } of history.slice(-5)) work.log(`revision ${revision}: ${status}`)
    return debugObjects(targetOf(work, helm), objects)
  },
  NAMES,
)

function targetOf(work: Work<HelmConfig>, { cluster, namespace }: Helm): Target {
  return { work, cluster, namespace }
}
