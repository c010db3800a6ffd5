import { describe, expect, it } from 'vitest'
import { defaultNetwork, type JobKind, type JobManifest, type JobNetwork } from '@tenon/core'
import type { Target } from '../egress/target.ts'
import { egressOf } from '../testing/agent-config.ts'
import { buildJobSpec } from './spec.ts'

const limits = { memoryBytes: 1, cpus: 1, pids: 1, timeoutSeconds: 1, graceSeconds: 1 }
const manifest = (kind: JobKind, plugins = ['script']) => {
  const operations = plugins.map((name) => ({ plugin: { name } }) as JobManifest['operations'][number])
  const network = defaultNetwork(kind, operations)
  return { jobId: 'j', fence: 1, kind, limits, network, operations } as unknown as JobManifest
}
const settings = {
  node: '/usr/bin/node',
  programs: '/opt/tenon',
  apiSocket: '/run/agent/api/job.sock',
  hostSocket: undefined,
  lentPaths: [],
  toolPaths: [],
  jobKubeconfig: undefined,
  agentDir: '/var/lib/tenon',
  isContainer: true,
  isFake: false,
  egress: egressOf({}),
}

describe('what a job gets', () => {
  it('is the socket of the agent where it can see one', () => {
    const spec = buildJobSpec(manifest('deploy'), 'token', settings)
    expect(spec.env['TENON_JOB_URL']).toBe('unix:/run/agent/api/job.sock')
    expect(spec.mounts).toEqual([{ path: '/run/agent/api', writable: false }])
    expect(spec.files).toEqual({ token: 'token' })
    expect(spec).not.toHaveProperty('serviceAccount')
  })

  it('is an address and the certificate to pin on a cluster, and the service account of its kind', () => {
    const remoteApi = { url: 'https://agent:8443', ca: 'CERT' }
    const cluster = { ...settings, remoteApi, serviceAccounts: { deploy: 'cloud' } }
    const spec = buildJobSpec(manifest('deploy'), 'token', cluster)
    expect(spec.env).toMatchObject({ TENON_JOB_URL: 'https://agent:8443', TENON_JOB_CA_FILE: 'job-api.pem' })
    expect(spec.files).toEqual({ token: 'token', 'job-api.pem': 'CERT' })
    expect(spec.mounts).toEqual([])
    expect(spec.serviceAccount).toBe('cloud')
    expect(buildJobSpec(manifest('sync'), 'token', cluster)).not.toHaveProperty('serviceAccount')
  })

  const network = (kind: JobKind, changes: object = {}, plugins = ['script']) => {
    const given = { ...settings, ...changes }
    const { env, ownNetwork, network: mode } = buildJobSpec(manifest(kind, plugins), 'token', given)
    return { mode, own: ownNetwork?.env, isDemanded: ownNetwork?.isDemanded, env }
  }

  it('is a network of its own for a sync, in which server and registry answer as they do on the machine', () => {
    expect(network('sync')).toMatchObject({
      mode: 'egress',
      isDemanded: false,
      own: {
        TENON_JOB_FORWARDS: '127.0.0.1:5000,127.0.0.1:4000',
        TENON_JOB_PROXY: '127.0.0.1:3128',
        HTTPS_PROXY: 'http://127.0.0.1:3128',
        no_proxy: '127.0.0.1,localhost,::1',
      },
    })
  })

  it('is the registry alone for what speaks to a cluster, and the machine for what calls a cloud', () => {
    expect(network('deploy', {}, ['helm_chart'])).toMatchObject({ mode: 'cluster', isDemanded: false })
    expect(network('logs').own).toMatchObject({ TENON_JOB_FORWARDS: '127.0.0.1:5000' })
    expect(network('deploy', {}, ['terraform_module']).own).toBeUndefined()
    expect(network('build')).toMatchObject({ mode: 'open', own: undefined })
  })

  it('is that of the engine for what brings up services on it, unless the customer says otherwise', () => {
    expect(network('deploy', {}, ['docker_build'])).toMatchObject({ mode: 'cluster', own: undefined })
    const egress = egressOf({ limits: { deploy: 'internal' } })
    expect(network('deploy', { egress }, ['docker_build']).isDemanded).toBe(true)
  })

  it('reaches the API server that its kubeconfig names', () => {
    const egress = egressOf({ clusters: [{ host: '127.0.0.1', port: 6443 }] })
    const forwards = network('deploy', { egress }, ['kubernetes_manifest']).own?.['TENON_JOB_FORWARDS']
    expect(forwards).toBe('127.0.0.1:5000,127.0.0.1:6443')
  })

  it('reaches that API server beside the names that are declared, and a sync does not', () => {
    const egress = egressOf({ clusters: [{ host: '127.0.0.1', port: 6443 }] })
    const declared = { mode: 'egress' as const, names: ['127.0.0.1:7000', 'api.example.com:443'] }
    const spec = buildJobSpec({ ...manifest('deploy'), network: declared }, 'token', { ...settings, egress })
    expect(spec.ownNetwork?.env['TENON_JOB_FORWARDS']).toBe('127.0.0.1:5000,127.0.0.1:7000,127.0.0.1:6443')
    expect(network('sync', { egress }).own?.['TENON_JOB_FORWARDS']).toBe('127.0.0.1:5000,127.0.0.1:4000')
  })

  const declared = { mode: 'egress' as const, names: ['api.example.com:443'] }
  const output = (port: number, host = '127.0.0.1') => ({ host, port })
  const forwards = (outputs: Target[], network: JobNetwork = declared) =>
    buildJobSpec({ ...manifest('deploy'), network }, 'token', settings, outputs).ownNetwork?.env[
      'TENON_JOB_FORWARDS'
    ]

  it('reaches what outputs say of this machine where names are declared, each once', () => {
    const outputs = [
      output(8080),
      output(443, 'db.example.com'),
      output(8080),
      output(5000),
      output(9090, '::1'),
    ]
    expect(forwards(outputs)).toBe('127.0.0.1:5000,127.0.0.1:8080,[::1]:9090')
    expect(forwards(outputs, { mode: 'cluster', names: [] })).toBe('127.0.0.1:5000')
    const many = Array.from({ length: 1000 }, (_, index) => output(10_000 + index))
    expect(forwards(many)?.split(',')).toHaveLength(1 + 64)
  })

  it('has its proxy beside what outputs name', () => {
    const { ownNetwork } = buildJobSpec({ ...manifest('deploy'), network: declared }, 'token', settings, [
      output(3128),
    ])
    expect(ownNetwork?.env['TENON_JOB_PROXY']).toBe('127.0.0.1:3129')
  })

  it('of declared names leaves the API server of a pod beside the proxy of its agent', () => {
    const proxy = { httpsProxy: 'http://proxy:8080', httpProxy: undefined, noProxy: undefined }
    const cluster = { remoteApi: { url: 'https://agent', ca: '' }, apiServerHost: '10.96.0.1' }
    const declared = { mode: 'egress' as const, names: ['api.example.com:443'] }
    const given = { ...settings, ...cluster, egress: egressOf({ proxy }) }
    const { env } = buildJobSpec({ ...manifest('deploy'), network: declared }, 'token', given)
    expect(env['NO_PROXY']).toBe('127.0.0.1,localhost,::1,kubernetes.default.svc,10.96.0.1')
  })

  it('is a label on a cluster, where the registry is behind the relay and the API server is not', () => {
    const cluster = { remoteApi: { url: 'https://agent', ca: '' }, apiServerHost: '10.96.0.1' }
    const deploy = network('deploy', cluster, ['helm_chart'])
    expect(deploy).toMatchObject({ mode: 'cluster', own: undefined })
    expect(deploy.env['NO_PROXY']).toBe('127.0.0.1,localhost,::1,kubernetes.default.svc,10.96.0.1')
    expect(deploy.env['HTTPS_PROXY']).toBe('http://127.0.0.1:3128')
    expect(network('sync', cluster).env).not.toHaveProperty('HTTPS_PROXY')
  })

  it('is what the customer leaves of it, which a machine must be able to hold to', () => {
    const egress = egressOf({ limits: { action: 'internal', sync: 'open' } })
    expect(network('action', { egress })).toMatchObject({ mode: 'internal', isDemanded: true })
    expect(network('sync', { egress })).toMatchObject({ mode: 'egress', isDemanded: false })
  })

  it('never shows the user of a proxy, through which the relay leads', () => {
    const proxy = { httpsProxy: 'http://user:hunter2@proxy:8080', httpProxy: undefined, noProxy: 'near' }
    for (const changes of [{}, { remoteApi: { url: 'https://agent', ca: '' } }, { isContainer: false }])
      for (const kind of ['sync', 'action', 'build', 'deploy'] as const) {
        const spec = buildJobSpec(manifest(kind), 'token', {
          ...settings,
          ...changes,
          egress: egressOf({ proxy }),
        })
        expect(JSON.stringify(spec)).not.toContain('hunter2')
        expect({ ...spec.env, ...spec.ownNetwork?.env }).toHaveProperty('TENON_JOB_PROXY')
        // Where nothing gives it a network of its own, the machine's still leads through the proxy alone.
        expect({ ...spec.env, ...(spec.ownNetwork?.openEnv ?? spec.env) }).toHaveProperty('TENON_JOB_PROXY')
      }
  })

  it('trusts the authorities that its machine trusts', () => {
    const egress = egressOf({ authorities: 'PEM' })
    const { env, files } = buildJobSpec(manifest('sync'), 'token', { ...settings, egress })
    expect(files[env['NODE_EXTRA_CA_CERTS'] ?? '']).toBe('PEM')
  })
})
