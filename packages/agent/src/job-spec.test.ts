import { describe, expect, it } from 'vitest'
import type { JobManifest } from '@tenon/core'
import { buildJobSpec } from './job-spec.ts'

const limits = { memoryBytes: 1, cpus: 1, pids: 1, timeoutSeconds: 1, graceSeconds: 1 }
const manifest = (kind: string) =>
  ({ jobId: 'j', fence: 1, kind, limits, operations: [] }) as unknown as JobManifest
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

  it('is the network that its kind may use, and all of it unless told', () => {
    const limited = { ...settings, networks: { action: 'none', deploy: 'internal' } as const }
    const networkOf = (kind: string) => buildJobSpec(manifest(kind), 'token', limited).network
    expect(['action', 'deploy', 'sync'].map(networkOf)).toEqual(['none', 'internal', 'egress'])
  })
})
