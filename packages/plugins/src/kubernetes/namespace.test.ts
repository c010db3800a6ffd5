import { describe, expect, it } from 'vitest'
import { whatKeeps } from './namespace.ts'

const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }

describe('a namespace that does not go', () => {
  it('says what keeps it, in the words of the cluster', () => {
    const conditions = [
      { type: 'NamespaceDeletionDiscoveryFailure', status: 'False', message: 'All resources discovered' },
      { type: 'NamespaceContentRemaining', status: 'True', message: 'pods. has 1 resource instances' },
      { type: 'NamespaceFinalizersRemaining', status: 'True', message: 'widgets.shop.io has a finalizer' },
    ]
    const words = 'pods. has 1 resource instances; widgets.shop.io has a finalizer'
    expect(whatKeeps({ ...namespace, status: { conditions } })).toBe(words)
  })

  it('says nothing where the cluster says nothing', () => {
    expect(whatKeeps(namespace)).toBe('')
    expect(whatKeeps({ ...namespace, status: { phase: 'Terminating' } })).toBe('')
  })
})
