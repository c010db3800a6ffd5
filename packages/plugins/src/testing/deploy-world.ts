import type { Json, ManifestOperation } from '@tenon/core'
import { MEDIA_TYPES, type ComponentJobConfig, type JobResult } from '@tenon/protocol'
import type { JobOutputs } from '../sdk/job-api.ts'
import { JobWorld, INSTALL_ID, type TestRegistry } from './job-world.ts'
import type { PluginName } from './programs.ts'
import { TestStore } from './test-store.ts'

const BUILD_ID = 'bld_00000000000000000000000001'

export interface Given {
  component?: string
  type: PluginName
  config: { [key: string]: Json }
  artifact?: { repository: string; digest: string }
  secrets?: Record<string, string>
  sensitiveInputs?: Record<string, string>
  inputs?: { [name: string]: Json }
  more?: Partial<ComponentJobConfig>
  approvedPlan?: string | null
  /** Of what is made or looked at; a removal may take as long as the cluster's own grace periods do. */
  timeoutSeconds?: number
}

export interface End extends JobResult {
  outputs: JobOutputs | undefined
  log: string
  /** Everything of the job that leaves the install, as one text. */
  told: string
}

export interface DeployWorld {
  world: JobWorld
  registry: TestRegistry
  store: TestStore
  /** By component type; a test may add its own. */
  plugins: Map<string, ManifestOperation['plugin']>
  /** What deploys gave, by component. */
  outputs: Record<string, JobOutputs>
  run(operation: ManifestOperation['operation'], given: Given): Promise<End>
  start(operation: ManifestOperation['operation'], given: Given): ReturnType<typeof startOne>
  close(): Promise<void>
}

export interface DeploySettings {
  types: PluginName[]
  /** PATH of the jobs. */
  path?: (world: JobWorld) => Promise<string>
  kubeconfig?: string
}

/** An install as its deploy jobs see it: registry, plugins as artifacts, store, outputs; each job is the real program. */
export async function createDeployWorld(settings: DeploySettings): Promise<DeployWorld> {
  const world = await JobWorld.create()
  const registry = await world.registry({ authorize: async () => ({ ok: true }) })
  const plugins = new Map<string, ManifestOperation['plugin']>()
  for (const type of settings.types) plugins.set(type, await world.pushPlugin(registry, type))
  const path = await settings.path?.(world)
  const state: State = { settings, path, world, registry, plugins, store: new TestStore(), outputs: {} }
  return {
    world,
    registry,
    store: state.store,
    plugins,
    outputs: state.outputs,
    start: (operation, given) => startOne(state, operation, given),
    run: async (operation, given) => {
      const { job, api } = await startOne(state, operation, given)
      await job.ended
      const { result, putOutputs } = api.record
      if (result === undefined) throw new Error(`no result: ${job.output()}`)
      const component = given.component ?? 'web'
      if (putOutputs && result.ok) state.outputs = Object.assign(state.outputs, { [component]: putOutputs })
      const shown = Object.entries(putOutputs ?? {}).map(([name, output]) => [
        name,
        output.sensitive ? {} : output,
      ])
      const told = JSON.stringify([result, api.record.progress, shown])
      return { ...result, outputs: putOutputs, log: job.output(), told }
    },
    close: () => world.close(),
  }
}

interface State {
  path: string | undefined
  settings: DeploySettings
  world: JobWorld
  registry: TestRegistry
  plugins: Map<string, ManifestOperation['plugin']>
  store: TestStore
  outputs: Record<string, JobOutputs>
}

async function startOne(state: State, operation: ManifestOperation['operation'], given: Given) {
  const { world, registry, settings } = state
  const component = given.component ?? 'web'
  const artifact = given.artifact
  const api = await world.jobApi(
    [
      {
        operation,
        component,
        plugin: state.plugins.get(given.type)!,
        artifacts: artifact === undefined ? [] : [{ name: 'artifact', ...artifact }],
        approvedPlan: given.approvedPlan ?? null,
        config: configOf(given) as unknown as { [key: string]: Json },
      },
    ],
    {
      context: {
        installId: INSTALL_ID,
        registry: { url: registry.server.url, bearer: registry.bearer() },
        hostSocket: null,
        serverUrl: registry.server.url,
        programs: world.programs,
        ...(settings.kubeconfig === undefined ? {} : { kubeconfig: settings.kubeconfig }),
      },
      secrets: {
        ...given.secrets,
        ...Object.fromEntries(
          Object.entries(given.sensitiveInputs ?? {}).map(([k, v]) => [`input--${k}`, v]),
        ),
      },
      outputs: state.outputs,
      store: state.store,
    },
  )
  const { timeoutSeconds = 300 } = operation === 'destroy' ? { timeoutSeconds: 600 } : given
  Object.assign(api.record.manifest.limits, { timeoutSeconds, graceSeconds: 20 })
  const job = await world.startJob(api, state.path === undefined ? {} : { PATH: state.path })
  return { job, api }
}

function configOf(given: Given): ComponentJobConfig {
  const artifact = given.artifact ?? { repository: 'apps/none', digest: `sha256:${'0'.repeat(64)}` }
  const name = given.component ?? 'web'
  return {
    component: given.config,
    type: given.type,
    install: { id: INSTALL_ID, name: 'acme' },
    app: { name: 'shop', version: 3 },
    sandbox: { type: 'local', outputs: { region: 'eu' } },
    inputs: given.inputs ?? {},
    sensitiveInputs: Object.keys(given.sensitiveInputs ?? {}),
    secrets: [
      ...Object.keys(given.secrets ?? {}),
      ...Object.keys(given.sensitiveInputs ?? {}).map((input) => `input--${input}`),
    ],
    absentSecrets: {},
    dependencies: [],
    overrides: {},
    health: null,
    policies: [],
    ...given.more,
    components: {
      [name]: { type: given.type, status: 'deployed', buildId: BUILD_ID, artifact, varName: null },
      ...given.more?.components,
    },
  }
}

/** A component of the install, for `more.components`. */
export function installed(type: string, artifact: { repository: string; digest: string }) {
  return { type, status: 'deployed', buildId: BUILD_ID, artifact, varName: null }
}

export async function pushModule(
  { world, registry }: DeployWorld,
  files: Record<string, string>,
): Promise<{ repository: string; digest: string }> {
  const repository = 'apps/shop/module'
  const placed = Object.entries(files).map(([path, content]) => [`module/${path}`, content] as const)
  const layout = { 'tenon.json': JSON.stringify({ module: 'module', providers: 'providers' }) }
  const content = { ...Object.fromEntries(placed), ...layout }
  return { repository, digest: await world.push(registry, repository, content, MEDIA_TYPES.terraformModule) }
}
