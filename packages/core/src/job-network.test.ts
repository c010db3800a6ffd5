import { describe, expect, it } from 'vitest'
import { narrowNetwork } from './job-network.ts'

describe('a limit on the network of jobs', () => {
  const egress = { mode: 'egress' as const, names: ['example.com:443'] }

  it('takes away what the manifest gives', () => {
    expect(narrowNetwork(egress, 'internal')).toEqual({ mode: 'internal', names: [] })
    expect(narrowNetwork({ mode: 'open', names: [] }, 'egress')).toEqual({ mode: 'egress', names: [] })
  })

  it('to the cluster leaves no declared name', () => {
    expect(narrowNetwork(egress, 'cluster')).toEqual({ mode: 'cluster', names: [] })
  })

  it('adds nothing', () => {
    expect(narrowNetwork(egress, 'open')).toEqual(egress)
    expect(narrowNetwork({ mode: 'internal', names: [] }, 'cluster')).toEqual({ mode: 'internal', names: [] })
    expect(narrowNetwork(egress, undefined)).toEqual(egress)
  })
})
