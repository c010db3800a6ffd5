import type { Json, ManifestOperation } from '@tenon/core'
import type { ComponentJobConfig } from '@tenon/protocol'
import { describe, expect, it } from 'vitest'
import { findDeclared } from './declared.ts'
import { showTarget } from './target.ts'

const OUTPUTS: Record<string, { [name: string]: Json }> = {
  db: { url: 'http://127.0.0.1:8080/path', name: 'db', size: 3 },
  web: { host: 'web.internal:80', own: 'http://127.0.0.1:9090' },
  other: { url: 'http://127.0.0.1:7070' },
}
const store = {
  get: async (_kind: string, name: string) => {
    const outputs = OUTPUTS[name]
    if (outputs === undefined) return undefined
    const entries = Object.entries(outputs).map(([key, value]) => [key, { sensitive: false, value }])
    return new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)))
  },
}

const deployed = {
  type: 'script',
  status: 'deployed',
  buildId: 'bld_00000000000000000000000001',
  varName: null,
}
const artifact = { repository: 'apps/shop/db', digest: `sha256:${'0'.repeat(64)}` }
const config: ComponentJobConfig = {
  component: {},
  type: 'helm_chart',
  install: { id: 'ins_00000000000000000000000001', name: 'acme' },
  app: { name: 'shop', version: 1 },
  sandbox: { type: 'local', outputs: { zone: 'acme.example.com' } },
  inputs: { port: 8443 },
  sensitiveInputs: [],
  secrets: ['token'],
  absentSecrets: {},
  dependencies: ['db', 'absent'],
  components: { db: { ...deployed, artifact } },
  overrides: {},
  health: null,
  policies: [],
}
const probing = (...urls: string[]): Partial<ComponentJobConfig> => ({
  health: {
    probes: urls.map((url) => ({ name: '', type: 'http', url })),
    blockDeploy: true,
    stabilizationSeconds: 0,
  },
})

const find = async (
  changes: Partial<ComponentJobConfig> = {},
  { operation = 'deploy', isUnwritten = true }: { operation?: string; isUnwritten?: boolean } = {},
) => {
  const one = {
    component: 'web',
    operation,
    config: { ...config, ...changes },
  } as unknown as ManifestOperation
  const found = await findDeclared(store, { operations: [one] } as never, () => isUnwritten)
  return { outputs: found.outputs.map(showTarget), probes: found.probes.map(showTarget) }
}

describe('what a job may reach besides declared names', () => {
  it('is what the outputs of its dependencies and of its own component say', async () => {
    expect((await find()).outputs).toEqual(['127.0.0.1:8080', 'web.internal:80', '127.0.0.1:9090'])
  })

  it('is nothing of its own component once the job has given outputs itself', async () => {
    expect((await find({}, { isUnwritten: false })).outputs).toEqual(['127.0.0.1:8080'])
  })

  it('is nothing for a job that reads no outputs, such as a sync', async () => {
    const operations = [{ component: 'web', operation: 'sync', config: { component: {} } }]
    const found = await findDeclared(store, { operations } as never, () => true)
    expect(found).toEqual({ outputs: [], probes: [] })
  })

  it('is what its http and tcp probes ask, rendered over what the agent knows', async () => {
    const { probes } = await find(
      probing(
        'http://web.apps.svc/health',
        'tcp://10.0.0.9:5432',
        'https://{{ .nuon.sandbox.outputs.zone }}:{{ .tenon.inputs.inputs.port }}/',
        '{{ .nuon.components.db.outputs.url }}/health',
      ),
    )
    expect(probes).toEqual(['web.apps.svc:80', '10.0.0.9:5432', 'acme.example.com:8443', '127.0.0.1:8080'])
  })

  it('leaves out a probe that only the job can render, or nobody', async () => {
    const { probes } = await find(
      probing(
        'http://{{ .nuon.secrets.token }}/',
        '{{ .nuon.components.other.outputs.url }}',
        '{{',
        '{{ range untilStep 0 100000000 1 }}x{{ end }}',
        'http://fine.example.com',
      ),
    )
    expect(probes).toEqual(['fine.example.com:80'])
  })

  it('is no probe of a job that asks none', async () => {
    expect((await find(probing('http://web.apps.svc'), { operation: 'logs' })).probes).toEqual([])
    const command = {
      probes: [{ name: '', type: 'exec' as const, url: 'http://a.example.com', command: 'true' }],
    }
    expect(
      (await find({ health: { ...command, blockDeploy: true, stabilizationSeconds: 0 } })).probes,
    ).toEqual([])
  })
})
