import type { App, Component, JobManifest } from '@tenon/core'
import type { Client, JobReport, PlanResult } from '@tenon/protocol'
import {
  connectAgent,
  enrolTestAgent,
  finishedFrame,
  manifestOf,
  startedFrame,
  type HelloOptions,
  type TestAgent,
} from './test-agent.ts'
import type { TestServer } from './test-server.ts'
import { until } from './until.ts'

const ARTIFACT = `sha256:${'a'.repeat(64)}`
export const PLAN = `sha256:${'b'.repeat(64)}`

export const plan = (changes: Partial<PlanResult> = {}): PlanResult => ({
  digest: PLAN,
  hasChanges: true,
  healthy: true,
  counts: { create: 1, update: 0, delete: 0 },
  changes: [{ action: 'create', address: 'thing.a' }],
  isCut: false,
  findings: [],
  ...changes,
})

export const component = (name: string, dependencies: string[] = []): Component => ({
  name,
  type: 'script',
  dependencies,
  config: {},
})

/** An app of two components, `web` on top of `db`, both built. */
export async function builtApp(
  { client, url }: Pick<TestServer, 'client' | 'url'>,
  name = 'shop',
  components: Component[] = [component('db'), component('web', ['db'])],
  rest: Partial<App> = {},
): Promise<void> {
  const app = { name, displayName: name, description: '', components, ...rest }
  await client.call('apps.sync', { body: { app } })
  const { joinToken } = await client.call('agents.joinToken', { body: { role: 'build' } })
  const builder = await connectAgent(url, await enrolTestAgent(url, joinToken), { slots: 50 })
  const working = workAll(builder)
  const { digest } = await client.call('sources.put', { body: new TextEncoder().encode('a source') })
  const { builds } = await client.call('builds.create', {
    params: { ref: name },
    body: { components: components.map((c) => ({ name: c.name, source: digest })) },
  })
  for (const build of builds) {
    await until(`build ${build.component}`, async () => {
      const { status } = await client.call('builds.get', { params: { id: build.id } })
      return status === 'succeeded'
    })
  }
  await builder.close()
  await working
}

/** An install without a sandbox, whose provision run waits for its agent. */
export async function newInstall(client: Client, name: string, app = 'shop') {
  const { install, run } = await client.call('installs.create', {
    body: { name, app, sandbox: { type: 'none', config: {} } },
  })
  return { install, run: run! }
}

export async function installAgent(
  { client, url }: Pick<TestServer, 'client' | 'url'>,
  install: string,
  options: HelloOptions = {},
): Promise<TestAgent> {
  const { joinToken } = await client.call('installs.joinToken', { params: { ref: install } })
  return connectAgent(url, await enrolTestAgent(url, joinToken), options)
}

/** Provisioned: everything deployed, nothing running. */
export async function activeInstall(
  server: TestServer,
  name: string,
  app = 'shop',
  look: (manifest: JobManifest) => void = () => undefined,
): Promise<TestAgent> {
  const { run } = await newInstall(server.client, name, app)
  const agent = await installAgent(server, name)
  const stop = new AbortController()
  const seen = (manifest: JobManifest) => (look(manifest), {})
  const working = workAll(agent, seen, stop.signal)
  await ended(server.client, run.id)
  stop.abort()
  await working
  return agent
}

export async function ended(client: Client, runId: string) {
  return until(`the end of run ${runId}`, async () => {
    const run = await client.call('runs.get', { params: { id: runId } })
    return run.finishedAt ? run : undefined
  })
}

/** No action waits for its start, whichever process saw to it. */
export async function nothingDue({ context }: Pick<TestServer, 'context'>): Promise<void> {
  const waiting = 'select 1 from install_action where next_at is null or next_at <= now()'
  await until('no action to be due', async () => (await context.pool.query(waiting)).rowCount === 0)
}

/** Answers each job at once, well unless told otherwise, until the connection or the signal ends. */
export async function workAll(
  agent: TestAgent,
  decide: (manifest: JobManifest) => Partial<JobReport> = () => ({}),
  signal?: AbortSignal,
): Promise<void> {
  while (agent.isOpen() && !signal?.aborted) {
    const assign = await agent.next('job.assign', undefined, 40).catch(() => undefined)
    if (!assign) continue
    const manifest = manifestOf(assign)
    agent.send({ type: 'job.accepted', jobId: manifest.jobId, fence: manifest.fence })
    agent.send(startedFrame(manifest))
    agent.send(finishedFrame(agent.identity, manifest, { ...resultOf(manifest), ...decide(manifest) }))
  }
}

function resultOf(manifest: JobManifest): Partial<JobReport> {
  if (manifest.kind === 'plan') return { result: { plan: plan() } }
  if (manifest.kind !== 'build') return {}
  return {
    result: { digest: ARTIFACT, repository: manifest.operations[0]!.config['repository'] as string },
  }
}
