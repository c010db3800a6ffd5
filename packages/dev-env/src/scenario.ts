import type { ComponentSettings, Json } from '@tenon/core'
import { checkExpectations } from './expectations.ts'
import { armFault, type Fault } from './faults.ts'
import { checkInvariants } from './invariants.ts'
import { APP, buildApp, COMPONENTS, type Template } from './template.ts'
import { INSTALL, Stage, type AgentSettings, type Job, type Run } from './stage.ts'
import type { Dists } from './world.ts'

/** What the fake runtime does with a job; `untilReleased: true` waits for the act `release`. */
export type Behaviour = { [key: string]: Json }

export interface ScenarioComponent {
  needs?: string[]
  sync?: Behaviour
  deploy?: Behaviour
  /** Instead of a script: the main.tf of a module, for an agent whose jobs are processes; it takes a `script` of the scenario. */
  module?: string
  limits?: { timeoutSeconds?: number; graceSeconds?: number }
  settings?: (stage: Stage) => ComponentSettings
}

export interface ExpectedJob {
  status: Job['status']
  reason?: NonNullable<Job['reason']>
  exitCode?: number
  fence?: number
  message?: RegExp
  log?: string
  /** How often the runtime started it; at most once in any case. */
  starts?: 0 | 1
}

export interface Scenario {
  name: string
  app: Record<string, ScenarioComponent>
  /** The deploy.sh of all its components, for an agent whose jobs are processes; built before anything else happens. */
  script?: (stage: Stage) => string
  /** Why it cannot be played on this machine. */
  absent?: string | undefined
  /** The server runs its own PostgreSQL instead of sharing the one of the tests. */
  ownPostgres?: true
  server?: Record<string, string>
  agent?: AgentSettings
  /** Before anything starts. */
  prepare?: (stage: Stage) => void
  /** Faults and what follows, each awaited in turn; those at a frame are armed before anything starts. */
  faults?: Fault[]
  expect: {
    run: Run['status']
    jobs: Record<string, ExpectedJob>
    audit?: { has?: string[]; hasNot?: string[] }
    /** Agents that must have ended, and with which code; every other one must still run. */
    exits?: Record<string, number>
    /** Steps whose job the scenario leaves without an end. */
    staysLost?: string[]
  }
  /** What data cannot say; runs after the expectations and before the invariants. */
  also?: (stage: Stage) => Promise<void>
}

export interface Ground {
  dists: Dists
  template: Template
}

export async function playScenario(scenario: Scenario, ground: Ground): Promise<void> {
  const stage = new Stage({ ...ground.dists, ...(scenario.server ? { serverEnv: scenario.server } : {}) })
  try {
    await stage.begin(scenario.ownPostgres ? undefined : ground.template)
    if (scenario.ownPostgres) await buildApp(stage.world, stage.server)
    if (scenario.script) {
      const modules = Object.entries(scenario.app).flatMap(([name, { module }]) =>
        module === undefined ? [] : [[name, module] as const],
      )
      const app = {
        names: Object.keys(scenario.app),
        deploy: scenario.script(stage),
        modules: Object.fromEntries(modules),
      }
      await buildApp(stage.world, stage.server, app)
    }
    await stage.openWire()
    const faults = (scenario.faults ?? []).map((fault) => armFault(stage, fault))
    scenario.prepare?.(stage)
    await createInstall(stage, scenario.app)
    await stage.startAgent(undefined, scenario.agent ?? {})
    for (const fault of faults) await fault.happen()
    await checkExpectations(stage, scenario.expect)
    await scenario.also?.(stage)
    await checkInvariants(stage, { staysLost: scenario.expect.staysLost ?? [] })
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${stage.lastWords()}`, { cause: error })
  } finally {
    await stage.end()
  }
}

/** A new version of the built app, with jobs that behave as told, and an install whose ground somebody else made. */
export async function createInstall(
  stage: Stage,
  app: Scenario['app'],
  install: string = INSTALL,
): Promise<void> {
  const components = Object.entries(app).map(([name, given]) => {
    const { needs = [], sync, deploy, limits, settings, module } = given
    return {
      name,
      type: module === undefined ? 'script' : 'terraform_module',
      dependencies: needs,
      config: {
        fake: { sync: behave(stage, name, sync), deploy: behave(stage, name, deploy) },
        ...(limits ? { limits } : {}),
      },
      ...(settings ? { settings: settings(stage) } : {}),
    }
  })
  const unknown = components.find(({ name }) => !COMPONENTS.includes(name))
  if (unknown) throw new Error(`${unknown.name} is no component of the template`)
  await stage.client.call('apps.sync', {
    body: { app: { name: APP, displayName: 'Shop', description: '', components } },
  })
  await stage.client.call('installs.create', {
    body: { name: install, app: APP, sandbox: { type: 'none' } },
  })
}

function behave(stage: Stage, component: string, behaviour: Behaviour = {}): Behaviour {
  if (behaviour['untilReleased'] !== true) return behaviour
  return { ...behaviour, untilReleased: stage.releaseFile(component) }
}
