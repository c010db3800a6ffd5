import { describe, expect, it } from 'vitest'
import type { JobSpec } from '../runtime.ts'
import { buildFilesSecret, buildJob, buildPullSecret, jobName } from './job-manifest.ts'

const spec: JobSpec = {
  jobId: 'Job_01.A',
  fence: 4,
  command: ['sh', '-c', 'echo $(HOME) $$'],
  env: { PATH: '/bin', A: '$(B) $$' },
  files: { token: 'secret-token', 'secrets/x': 'secret-x' },
  mounts: [],
  network: 'internal',
  limits: { memoryBytes: 64e6, cpus: 0.5, pids: 32, timeoutSeconds: 60, graceSeconds: 5 },
}
const parts = {
  spec,
  agentKey: 'key',
  image: 'r/job@sha256:1',
  command: ['node'],
  workBytes: 1000,
  keepSeconds: 100,
  hasPullSecret: false,
  hostAliases: [{ ip: '10.0.0.7', hostnames: ['tenon.tenon.svc'] }],
}
const pod = (more: Partial<typeof parts> = {}) => buildJob({ ...parts, ...more }).spec.template.spec

describe('the Job of a job', () => {
  it('runs once, in one pod, with a deadline, found by labels and owned by nobody', () => {
    const job = buildJob(parts)
    expect(job.spec).toMatchObject({ backoffLimit: 0, completions: 1, parallelism: 1 })
    expect(job.spec).toMatchObject({ podReplacementPolicy: 'Failed' })
    expect(job.spec.activeDeadlineSeconds).toBe(900 + 60 + 5 + 100)
    expect(job.spec.template.spec.restartPolicy).toBe('Never')
    expect(job.metadata).toMatchObject({
      labels: { 'tenon.agent': 'key', 'tenon.network': 'internal' },
      annotations: { 'tenon.job': 'Job_01.A', 'tenon.fence': '4' },
    })
    expect(job.metadata).not.toHaveProperty('ownerReferences')
  })

  it('holds nothing secret', () => {
    const text = JSON.stringify(buildJob(parts))
    for (const secret of ['secret-token', 'secret-x']) {
      expect(text).not.toContain(secret)
      expect(text).not.toContain(Buffer.from(secret).toString('base64'))
    }
  })

  it('has every wall, in both containers', () => {
    const { containers, securityContext } = pod()
    expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } })
    expect(containers).toHaveLength(2)
    for (const container of containers) {
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        privileged: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      expect(container.resources.limits['memory']).toBeDefined()
    }
    expect(containers[0]?.resources.limits).toEqual({ cpu: '500m', memory: '64000000' })
  })

  it('has a service account only where its role has one', () => {
    expect(pod()).toMatchObject({ automountServiceAccountToken: false })
    expect(pod()).not.toHaveProperty('serviceAccountName')
    expect(pod({ spec: { ...spec, serviceAccount: 'cloud' } })).toMatchObject({
      automountServiceAccountToken: true,
      serviceAccountName: 'cloud',
    })
  })

  it('knows the agent’s address and asks no DNS where its network is internal, unless the agent does not know it', () => {
    const { hostAliases } = parts
    const closed = { hostAliases, dnsPolicy: 'None', dnsConfig: { nameservers: ['127.0.0.1'] } }
    expect(pod()).toMatchObject(closed)
    for (const open of [
      pod({ spec: { ...spec, network: 'cluster' } }),
      pod({ spec: { ...spec, network: 'egress' } }),
      pod({ hostAliases: [] }),
    ])
      for (const name of Object.keys(closed)) expect(open).not.toHaveProperty(name)
  })

  it('hands commands and variables on as they are, whatever the kubelet reads in dollars', () => {
    const [job] = pod().containers
    const expand = (text: string) => text.replaceAll('$$', '$')
    expect(job?.args.slice(-3).map(expand)).toEqual(spec.command)
    expect(job?.env.map(({ name, value }) => [name, expand(value)])).toContainEqual(['A', '$(B) $$'])
    for (const word of [...(job?.command ?? []), ...(job?.args ?? [])]) {
      expect(word.replaceAll('$$', '')).not.toContain('$')
    }
  })

  it('has a name that fits every cluster, its own for each job and agent', () => {
    const names = ['a', 'A', 'a_b', 'a-b', 'x'.repeat(128), '...'].map((id) => jobName('key', id))
    expect(new Set([...names, jobName('other', 'a')]).size).toBe(names.length + 1)
    for (const name of names) {
      expect(name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
      expect(name.length).toBeLessThanOrEqual(58)
    }
  })
})

describe('the Secrets of a job', () => {
  it('hold its files in their order, and cannot change', () => {
    const { data, immutable } = buildFilesSecret('n', {}, spec.files)
    expect(immutable).toBe(true)
    expect(Object.values(data).map((text) => Buffer.from(text, 'base64').toString())).toEqual([
      'secret-token',
      'secret-x',
    ])
  })

  it('hold a login as the kubelet reads it', () => {
    const secret = buildPullSecret('n', {}, 'host:5000', { username: 'u', password: 'p' })
    const config = JSON.parse(
      Buffer.from(secret.data['.dockerconfigjson'] ?? '', 'base64').toString(),
    ) as unknown
    expect(config).toEqual({ auths: { 'host:5000': { username: 'u', password: 'p', auth: 'dTpw' } } })
    expect(secret.metadata.name).toBe('n-pull')
  })
})
