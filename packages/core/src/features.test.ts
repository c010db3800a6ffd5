import { describe, expect, it } from 'vitest'
import { describeLack, lacking, mergeRequirements, requirementOf } from './features.ts'
import { requiredByNetwork } from './egress-names.ts'
import type { JobNetwork } from './job-network.ts'

const ofNetwork = (mode: JobNetwork['mode'], ...names: string[]) =>
  requiredByNetwork({ mode, names }).map(({ feature }) => feature)

describe('what a manifest requires', () => {
  it('is that its network is kept to, wherever that is narrower than the machine', () => {
    expect(ofNetwork('internal')).toEqual(['job-networks'])
    expect(ofNetwork('cluster')).toEqual(['job-networks'])
    expect(ofNetwork('egress', 'api.example.com:443')).toEqual(['job-networks'])
    expect(ofNetwork('egress')).toEqual([])
    expect(ofNetwork('open')).toEqual([])
  })

  it('is not what agents of 0.2 say, which read a network and run the job with another', () => {
    const lack = lacking(requiredByNetwork({ mode: 'internal', names: [] }), ['hold', 'network'])
    expect(describeLack(lack)).toBe('it needs agent ≥ 0.3, which has job-networks')
  })

  it('keeps what was required before, once each', () => {
    const later = { feature: 'later', since: '0.9' }
    expect(mergeRequirements([later, requirementOf('network')], [requirementOf('network')])).toEqual([
      later,
      { feature: 'network', since: '0.2' },
    ])
  })
})
