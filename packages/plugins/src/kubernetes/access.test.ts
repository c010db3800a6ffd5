import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readJobConfig } from '../job/config.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { clusterAccess } from './access.ts'

const inPod = { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' }
const context = (baseEnv: Record<string, string>, kubeconfig?: string) => ({
  baseEnv,
  job: { kubeconfig } as OperationContext['job'],
})

describe('the way of a job to its cluster', () => {
  it('is the file that was lent to it, else the account of its pod, else none', () => {
    expect(clusterAccess(context(inPod, '/lent'), true)).toBe('kubeconfig')
    expect(clusterAccess(context(inPod), true)).toBe('pod')
    expect(clusterAccess(context(inPod), false)).toBe('none')
    expect(clusterAccess(context({}), true)).toBe('none')
  })
})

describe('what a job hands on to its tools', () => {
  it('is what cluster and cloud say of where it runs, and no credential', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'tenon-job-config-'))
    await writeFile(join(dir, 'token'), 'token')
    const surroundings = {
      ...inPod,
      AWS_REGION: 'eu-central-1',
      AWS_ROLE_ARN: 'arn',
      AWS_WEB_IDENTITY_TOKEN_FILE: '/var/run/token',
      AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://169.254.170.23/v1/credentials',
      AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: '/var/run/pod-identity',
      AZURE_FEDERATED_TOKEN_FILE: '/var/run/azure',
      GOOGLE_APPLICATION_CREDENTIALS: '/var/run/google.json',
      https_proxy: 'http://proxy:3128',
      SSL_CERT_FILE: '/etc/ca.pem',
    }
    const secrets = {
      AWS_ACCESS_KEY_ID: 'key',
      AWS_SECRET_ACCESS_KEY: 'secret',
      AWS_SESSION_TOKEN: 'secret',
      AWS_CONTAINER_AUTHORIZATION_TOKEN: 'secret',
      AZURE_CLIENT_SECRET: 'secret',
      KUBERNETES_SERVICE_SECRET: 'secret',
    }
    const own = { TENON_JOB_URL: 'unix:/run/api', TENON_JOB_TOKEN_FILE: join(dir, 'token'), PATH: '/bin' }
    const { baseEnv } = await readJobConfig({ ...surroundings, ...secrets, ...own })
    await rm(dir, { recursive: true })
    expect(baseEnv).toEqual({ ...surroundings, PATH: '/bin' })
  })
})
