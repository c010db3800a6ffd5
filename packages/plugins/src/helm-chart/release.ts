import { parseObjects, type KubeObject } from '../kubernetes/objects.ts'
import { baseOf } from '../deploy/saved-plan.ts'
import { historyOf, type Helm, type Revision } from './helm.ts'

export interface Release {
  history: Revision[]
  /** The revision that is in force, or was last; undefined when none ever was. */
  deployed: Revision | undefined
  /** Status of a half done operation that nobody finishes. */
  stuck: string | undefined
  objects: KubeObject[]
  hooks: KubeObject[]
}

export async function readRelease(helm: Helm): Promise<Release> {
  const history = await historyOf(helm)
  const last = history.at(-1)
  const deployed =
    history.findLast(({ status }) => status === 'deployed') ??
    history.findLast(({ status }) => status === 'superseded')
  const isStuck = last !== undefined && (last.status.startsWith('pending-') || last.status === 'uninstalling')
  const get = async (part: 'manifest' | 'hooks') => {
    if (deployed === undefined) return []
    const args = ['get', part, helm.release, '--revision', String(deployed.revision)]
    return parseObjects(await helm.must(args), 'the release')
  }
  const [objects, hooks] = [await get('manifest'), await get('hooks')]
  return { history, deployed, stuck: isStuck ? last.status : undefined, objects, hooks }
}

export function releaseBase({ objects }: Release): string {
  return baseOf(objects)
}

/** An operation that died half way leaves the release locked; one change at a time is ours to hold, so nobody is there. */
export async function recoverRelease(helm: Helm, release: Release): Promise<string | undefined> {
  const { stuck, history, deployed } = release
  const last = history.at(-1)
  if (stuck === undefined || last === undefined) return undefined
  const { release: name, namespace, work } = helm
  let how: string
  if (stuck === 'uninstalling' || history.length === 1) {
    await helm.must(['uninstall', name, '--ignore-not-found', '--wait', '--timeout', '3m'], {
      isLogged: true,
    })
    how = 'removed'
  } else if (deployed !== undefined) {
    await helm.must(['rollback', name, String(deployed.revision), ...helm.merge, '--timeout', '3m'], {
      isLogged: true,
    })
    how = `rolled back to revision ${deployed.revision}`
  } else {
    const kind = work.component.storage_driver.startsWith('configmap') ? 'configmap' : 'secret'
    const record = `sh.helm.release.v1.${name}.v${last.revision}`
    await helm.cluster.must(['delete', kind, record, '-n', namespace, '--ignore-not-found'])
    how = `forgotten (revision ${last.revision})`
  }
  const words = `The release ${name} was left in ${stuck} by an earlier operation; it was ${how}.`
  work.log(words)
  return words
}
