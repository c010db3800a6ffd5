import { componentOperation, type Work } from '../deploy/operation.ts'
import { openCluster } from '../kubernetes/cluster.ts'
import {
  deployObjects,
  destroyObjects,
  objectsThere,
  planObjects,
  statusOfObjects,
  type Target,
} from '../kubernetes/component.ts'
import { debugObjects } from '../kubernetes/debug.ts'
import { logsOfObjects } from '../kubernetes/logs.ts'
import { manifestConfig, type ManifestConfig } from './config.ts'
import { wantedObjects } from './objects.ts'

export const plan = componentOperation(manifestConfig, async (work) => {
  const target = await targetOf(work)
  return planObjects(target, await wantedObjects(work, target.cluster))
})

export const deploy = componentOperation(manifestConfig, async (work) => {
  const target = await targetOf(work)
  return deployObjects(target, () => wantedObjects(work, target.cluster))
})

export const status = componentOperation(manifestConfig, async (work) => {
  const target = await targetOf(work)
  return statusOfObjects(target, await wantedObjects(work, target.cluster))
})

/** The inventory in the cluster says what there is to remove. */
export const destroy = componentOperation(
  manifestConfig,
  async (work) => destroyObjects(await targetOf(work)),
  ['namespace'],
)

/** The inventory tells what runs, whatever the configuration says by now. */
export const logs = componentOperation(
  manifestConfig,
  async (work) => {
    const target = await targetOf(work)
    return logsOfObjects(target, () => objectsThere(target))
  },
  ['namespace'],
)

export const debug = componentOperation(
  manifestConfig,
  async (work) => {
    const target = await targetOf(work)
    return debugObjects(target, await objectsThere(target))
  },
  ['namespace'],
)

async function targetOf(work: Work<ManifestConfig>): Promise<Target> {
  return { work, cluster: await openCluster(work), namespace: work.component.namespace }
}
