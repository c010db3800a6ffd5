import { describe, expect, it } from 'vitest'
import { defaultNetwork, KIND_RULES } from './job-kinds.ts'
import { JOB_KINDS, type JobKind } from './states.ts'

const IN_CLUSTER = [
  'helm_chart',
  'kubernetes_manifest',
  'kubernetes_secrets',
  'container_image',
  'docker_build',
]
const ELSEWHERE = ['terraform_module', 'pulumi', 'script', 'plugin', 'action', 'sandbox-local', 'sync']

const network = (kind: JobKind, ...plugins: string[]) => {
  const operations = plugins.map((name) => ({ plugin: { name, repository: '', digest: null } }))
  const { mode, names } = defaultNetwork(kind, operations)
  return [mode, ...names].join(' ')
}

/** By kind: of plugins that work in the cluster, and of all others. */
const NETWORKS: Record<JobKind, [inCluster: string, elsewhere: string]> = {
  build: ['open', 'open'],
  sync: ['egress server', 'egress server'],
  plan: ['cluster', 'egress'],
  deploy: ['cluster', 'egress'],
  destroy: ['cluster', 'egress'],
  sandbox: ['cluster', 'egress'],
  action: ['cluster', 'egress'],
  logs: ['cluster', 'cluster'],
  debug: ['cluster', 'cluster'],
}

describe('the network of a job unless its app declares names', () => {
  it.each(JOB_KINDS)('by plugin, of a %s job', (kind) => {
    const [inCluster, elsewhere] = NETWORKS[kind]
    for (const plugin of IN_CLUSTER) expect([plugin, network(kind, plugin)]).toEqual([plugin, inCluster])
    for (const plugin of ELSEWHERE) expect([plugin, network(kind, plugin)]).toEqual([plugin, elsewhere])
  })

  it('is that of the widest of its operations', () => {
    expect(network('deploy', 'helm_chart', 'kubernetes_manifest')).toBe('cluster')
    expect(network('deploy', 'helm_chart', 'terraform_module')).toBe('egress')
  })

  it('is said of every kind', () => {
    expect(Object.keys(KIND_RULES).toSorted()).toEqual([...JOB_KINDS].toSorted())
  })
})
