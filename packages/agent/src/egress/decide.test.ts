import type { JobNetwork } from '@tenon/core'
import { describe, expect, it } from 'vitest'
import { decideEgress, targetsIn } from './decide.ts'
import { mayProbe } from './network.ts'

const rules = (network: JobNetwork) => ({
  network,
  registryUrl: 'http://127.0.0.1:5000',
  serverUrl: 'https://tenon.example.com',
  clusters: [{ host: '10.0.0.1', port: 6443 }],
  mayProbe: mayProbe(network, undefined),
})
const decide = (asked: string, network: JobNetwork, outputs: string[] = [], probes: string[] = []) => {
  const declared = { outputs: targetsIn(outputs), probes: targetsIn(probes) }
  const verdict = decideEgress(asked, rules(network), declared)
  return verdict.ok ? (verdict.mayBeSpecial ? 'as it is' : 'yes') : verdict.code
}
const internal: JobNetwork = { mode: 'internal', names: [] }
const cluster: JobNetwork = { mode: 'cluster', names: [] }
const egress = (...names: string[]): JobNetwork => ({ mode: 'egress', names })

describe('where a job may be connected to', () => {
  it('is always its registry, by whichever name this machine has', () => {
    for (const network of [internal, cluster, egress('server'), egress()])
      for (const place of ['127.0.0.1:5000', 'localhost:5000'])
        expect(decide(place, network)).toBe('as it is')
    expect(decide('127.0.0.1:5001', internal)).toBe('network_refused')
  })

  it('is nothing else for internal, and the API server too for cluster', () => {
    expect(decide('10.0.0.1:6443', internal)).toBe('network_refused')
    expect(decide('10.0.0.1:6443', cluster)).toBe('as it is')
    expect(decide('10.0.0.1:443', cluster)).toBe('network_refused')
    expect(decide('tenon.example.com:443', cluster)).toBe('network_refused')
  })

  it('is what is declared for egress, by name and port', () => {
    const network = egress('server', 'api.example.com:443', '169.254.169.254:80')
    expect(decide('tenon.example.com:443', network)).toBe('as it is')
    expect(decide('API.example.com:443', network)).toBe('yes')
    expect(decide('api.example.com:8443', network)).toBe('network_refused')
    expect(decide('evil.example.com:443', network)).toBe('network_refused')
    expect(decide('169.254.169.254:80', network)).toBe('as it is')
    expect(decide('tenon.example.com:443', egress('api.example.com:443'))).toBe('network_refused')
  })

  it('is the API server too, whatever names are declared beside it', () => {
    for (const network of [egress('api.example.com:443'), egress()])
      expect(decide('10.0.0.1:6443', network)).toBe('as it is')
    expect(decide('10.0.0.2:6443', egress('api.example.com:443'))).toBe('network_refused')
  })

  it('is every name below a declared domain, and nothing that only ends like it', () => {
    const network = egress('*.example.com:443')
    expect(decide('a.example.com:443', network)).toBe('yes')
    expect(decide('A.b.example.com:443', network)).toBe('yes')
    for (const place of [
      'example.com:443',
      'badexample.com:443',
      'a.example.com:80',
      'a.example.com.evil:443',
    ])
      expect(decide(place, network)).toBe('network_refused')
  })

  it('is what the outputs that it may read name, but no metadata that they name', () => {
    const outputs = ['https://db.example.com/path', 'cache.internal:6379', 'http://169.254.169.254', 'a word']
    const network = egress('server')
    expect(decide('db.example.com:443', network, outputs)).toBe('yes')
    expect(decide('cache.internal:6379', network, outputs)).toBe('yes')
    expect(decide('169.254.169.254:80', network, outputs)).toBe('yes')
    expect(decide('127.0.0.1:8080', network, ['http://127.0.0.1:8080'])).toBe('as it is')
    expect(decide('db.example.com:443', internal, outputs)).toBe('network_refused')
  })

  it('is what its probes ask, but nothing of this machine that no output names', () => {
    const probes = [
      'http://web.apps.svc/health',
      'tcp://10.0.0.9:5432',
      'http://169.254.169.254',
      '127.0.0.1:22',
    ]
    for (const network of [cluster, egress('server')]) {
      expect(decide('web.apps.svc:80', network, [], probes)).toBe('yes')
      expect(decide('10.0.0.9:5432', network, [], probes)).toBe('yes')
      expect(decide('10.0.0.9:5433', network, [], probes)).toBe('network_refused')
      // Not as it is: what dials refuses it.
      for (const special of ['169.254.169.254:80', '127.0.0.1:22'])
        expect(decide(special, network, [], probes)).toBe('yes')
      expect(decide('127.0.0.1:22', network, ['127.0.0.1:22'], probes)).toBe('as it is')
      expect(decide('169.254.169.254:80', network, ['http://169.254.169.254'], probes)).toBe('yes')
    }
    expect(decide('web.apps.svc:80', internal, [], probes)).toBe('network_refused')
  })

  it.each([
    ['internal', false],
    ['cluster', false],
    ['egress', true],
    ['open', true],
    [undefined, true],
  ] as const)('where a customer leaves a kind of job %s, its probes count: %s', (limit, isLeft) => {
    expect(mayProbe(cluster, limit)).toBe(isLeft)
  })

  it('is everything that is not this machine where nothing is declared', () => {
    expect(decide('api.example.com:443', egress())).toBe('yes')
    expect(decide('127.0.0.1:5432', { mode: 'open', names: [] })).toBe('yes')
  })

  it.each(['', 'example.com', 'example.com:0', 'example.com:70000', 'a b:1', '[nonsense]:1', 'http://a:1'])(
    'is not %j',
    (asked) => {
      expect(decide(asked, { mode: 'open', names: [] })).toBe('bad_target')
    },
  )
})
