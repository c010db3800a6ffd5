import { describe, expect, it } from 'vitest'
import type { KubeObject } from './objects.ts'
import { containersOf, describePod, ownedPods } from './pods.ts'

function object(kind: string, name: string, owner?: string, more: object = {}): KubeObject {
  const ownerReferences = owner === undefined ? [] : [{ uid: owner, kind: 'Owner' }]
  return {
    apiVersion: 'v1',
    kind,
    metadata: { name, uid: name, namespace: 'shop', ownerReferences },
    ...more,
  }
}

describe('the pods of a component', () => {
  it('are those that its objects own, through replica sets and jobs too', () => {
    const around = [
      object('Pod', 'web-1', 'set'),
      object('ReplicaSet', 'set', 'web'),
      object('Pod', 'nightly-1', 'nightly-job'),
      object('Job', 'nightly-job', 'nightly'),
      object('Pod', 'other', 'somebody-else'),
      object('Pod', 'alone'),
    ]
    const roots = [object('Deployment', 'web'), object('CronJob', 'nightly'), object('Pod', 'alone')]
    expect(ownedPods(roots, around).map(({ metadata }) => metadata.name)).toEqual([
      'alone',
      'nightly-1',
      'web-1',
    ])
    expect(ownedPods([], around)).toEqual([])
  })

  it('tell their containers, and each run of one from the next', () => {
    const pod = object('Pod', 'web-1', undefined, {
      spec: { initContainers: [{ name: 'init' }], containers: [{ name: 'main' }], nodeName: 'n1' },
      status: {
        phase: 'Running',
        containerStatuses: [{ name: 'main', ready: true, restartCount: 2, state: { running: {} } }],
      },
    })
    expect(containersOf(pod)).toEqual([
      { namespace: 'shop', pod: 'web-1', container: 'init', life: 'web-1/init/0', isRunning: false },
      { namespace: 'shop', pod: 'web-1', container: 'main', life: 'web-1/main/2', isRunning: true },
    ])
    expect(describePod(pod)).toBe('shop/web-1: Running, 1 of 1 containers ready, 2 restarts, on n1')
  })
})
