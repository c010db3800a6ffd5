import type { App, Component, JobManifest } from '@tenon/core'
import type { JobReport } from '@tenon/protocol'
import type { TestTenant } from './test-server.ts'
import { until } from './until.ts'
import { activeInstall, builtApp, component, ended, PLAN, workAll } from './world.ts'

export const planned = (name: string, rest: Partial<Component> = {}): Component => ({
  ...component(name),
  type: 'planned',
  ...rest,
})

export const action = (name: string, triggers: NonNullable<App['actions']>[number]['triggers']) => ({
  name,
  timeoutSeconds: 30,
  dependencies: [],
  triggers,
  steps: [{ name: 'say', inlineContents: 'echo {{ .nuon.components.db.outputs.url }}' }],
})

export const NEWER = `sha256:${'d'.repeat(64)}`
export const PRE_DEPLOY: Partial<App> = {
  actions: [action('check', [{ type: 'pre-deploy-component', component: 'db' }])],
}
export const SIZE: NonNullable<App['inputs']>[number] = {
  name: 'size',
  displayName: '',
  description: '',
  group: '',
  type: 'number',
  default: 1,
  required: false,
  internal: false,
  sensitive: false,
  userConfigurable: true,
}
/** A report that nobody tries again by himself. */
export const broken = { outcome: 'failed', reason: 'exit', exitCode: 1, result: { final: true } } as const
export const only = (kind: JobManifest['kind'], report: object) => (m: JobManifest) =>
  m.kind === kind ? report : {}

export type PlannedWorld = Awaited<ReturnType<typeof plannedWorld>>

let count = 0

/** An install on which everything is deployed, and an agent that goes on answering. */
export async function plannedWorld(server: TestTenant, components: Component[], rest: Partial<App> = {}) {
  const name = `p${++count}`
  await builtApp(server, name, components, rest)
  const agent = await activeInstall(server, name, name)
  const seen: JobManifest[] = []
  let decide: (manifest: JobManifest) => Partial<JobReport> = () => ({})
  const working = workAll(agent, (manifest) => {
    seen.push(manifest)
    return decide(manifest)
  })
  const { client } = server
  const params = { ref: name }
  return {
    name,
    agent,
    seen,
    answer: (how: typeof decide) => (decide = how),
    deploy: (body: { components?: string[]; changed?: boolean } = {}) =>
      client.call('deploys.create', { params, body }),
    prompt: () => client.call('installs.update', { params, body: { approval: 'prompt' } }),
    async close() {
      await agent.close()
      await working
    },
  }
}

/** What tests ask about runs of a server. */
export function runsOf({ client }: Pick<TestTenant, 'client'>) {
  const run = (id: string) => client.call('runs.get', { params: { id } })
  const stepOf = async (id: string, key: string) => (await run(id)).steps.find((s) => s.key === key)!
  return {
    run,
    stepOf,
    statuses: async (id: string) =>
      Object.fromEntries((await ended(client, id)).steps.map((s) => [s.key, s.status])),
    waitFor: (id: string, key: string, status: string) =>
      until(
        `${key} to be ${status}`,
        async () => {
          const step = await stepOf(id, key)
          return step?.status === status ? step : undefined
        },
        30_000,
      ),
    on: async (what: 'skip' | 'retry' | 'cancel', id: string, key: string) =>
      client.call(`steps.${what}`, { params: { id, step: (await stepOf(id, key)).id } }),
    /** Names what the step asks about, or else the usual plan. */
    approve: async (id: string, key: string, digest?: string | null) => {
      const { id: step, asked } = await stepOf(id, key)
      const named = digest === undefined ? (asked?.digest ?? PLAN) : digest
      return client.call('steps.approve', { params: { id, step }, body: { digest: named } })
    },
    reject: async (id: string, key: string) =>
      client.call('steps.reject', {
        params: { id, step: (await stepOf(id, key)).id },
        body: { reason: 'not today' },
      }),
  }
}
