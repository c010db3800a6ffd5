import {
  actionKey,
  declaredNetwork,
  isBuilt,
  kubernetesTargets,
  type AgentRole,
  type App,
  type Json,
  type PlannedOperation,
  type StepKind,
} from '@tenon/core'
import { pluginFor, type Plugins } from '../artifacts/plugins.ts'
import { ApiFailure } from '../errors.ts'
import type { JobPlan } from '../jobs/sign-manifest.ts'
import { buildCommand } from './action-builds.ts'
import {
  actionConfig,
  componentConfig,
  secretsConfig,
  type ConfigSubject,
  type InstallFacts,
} from './component-config.ts'

export interface StepSubject extends ConfigSubject {
  kind: StepKind
  component: string | null
  action: string | null
  install: InstallFacts & { sandbox_config: { [key: string]: Json } }
  /** The artifact that the step is about: of the run's deploy, or what is installed. */
  artifact: { repository: string; digest: string } | undefined
  /** Artifacts of the run's actions that are built, by name. */
  actions: ReadonlyMap<string, { repository: string; digest: string }>
  approvedPlan: string | null
}

/** Which agents do the jobs of such steps. */
export function roleOfStep(kind: StepKind): AgentRole {
  return kind === 'sandbox' || kind === 'sandbox-destroy' ? 'setup' : 'install'
}

/** Pure: the job of a step, or an ApiFailure that says why there can be none. */
export function planJobOfStep(plugins: Plugins, subject: StepSubject): JobPlan {
  const { kind, install } = subject
  const inInstall = { role: roleOfStep(kind), installId: install.id }
  switch (kind) {
    case 'agent':
    case 'approval':
      throw new Error(`no job does a step of kind ${kind}`)
    case 'sandbox':
    case 'sandbox-destroy':
      return {
        kind: 'sandbox',
        role: roleOfStep(kind),
        installId: install.id,
        operations: [sandboxOperation(plugins, subject)],
        cloudRole: kind === 'sandbox' ? 'provision' : 'deprovision',
      }
    case 'sync':
      return { kind, ...inInstall, operations: [syncOperation(plugins, subject)] }
    case 'plan':
      return {
        kind,
        ...inInstall,
        operations: [componentOperation(plugins, subject, kind)],
        network: declaredNetwork(componentOf(subject).settings?.egress),
      }
    case 'deploy':
    case 'destroy': {
      const { deployTimeoutSeconds: timeoutSeconds, egress } = componentOf(subject).settings ?? {}
      const operations = [componentOperation(plugins, subject, kind)]
      return { kind, ...inInstall, operations, limits: { timeoutSeconds }, network: declaredNetwork(egress) }
    }
    case 'action': {
      const { role: cloudRole, egress } =
        subject.app.actions?.find(({ name }) => name === subject.action) ?? {}
      const operations = [actionOperation(plugins, subject)]
      return { kind, ...inInstall, operations, cloudRole, network: declaredNetwork(egress) }
    }
    case 'secrets':
      return { kind: 'deploy', ...inInstall, operations: [secretsOperation(plugins, subject, 'deploy')] }
    case 'secrets-destroy':
      return { kind: 'destroy', ...inInstall, operations: [secretsOperation(plugins, subject, 'destroy')] }
  }
}

function sandboxOperation(plugins: Plugins, { kind, install }: StepSubject): PlannedOperation {
  const config = {
    ...install.sandbox_config,
    action: kind === 'sandbox' ? 'create' : 'destroy',
    installId: install.id,
    installName: install.name,
  }
  return {
    operation: 'sandbox',
    plugin: pluginFor(plugins, `sandbox-${install.sandbox_type}`),
    component: null,
    artifacts: [],
    approvedPlan: null,
    config,
  }
}

function syncOperation(plugins: Plugins, subject: StepSubject): PlannedOperation {
  if (subject.component === null) return syncOf(ownArtifacts(plugins, subject), null, {})
  const component = componentOf(subject)
  const artifact = { name: 'artifact', ...artifactOf(subject) }
  const plugin = pluginOf(plugins, component.type, artifact)
  const artifacts = plugin.digest === artifact.digest ? [artifact] : [pluginArtifact(plugin), artifact]
  return syncOf(artifacts, component.name, { component: component.config })
}

function ownArtifacts(plugins: Plugins, { app, actions }: StepSubject): PlannedOperation['artifacts'] {
  const built = [...actions].map(([name, artifact]) => ({ name: actionKey(name, null), ...artifact }))
  return [...ownPlugins(plugins, app).map(pluginArtifact), ...built]
}

/** What does the steps of no component. */
function ownPlugins(plugins: Plugins, app: App): PlannedOperation['plugin'][] {
  const names = [
    ...((app.actions ?? []).length > 0 ? ['action'] : []),
    ...(kubernetesTargets(app).length > 0 ? [SECRETS_PLUGIN] : []),
  ]
  return names.map((name) => pluginFor(plugins, name))
}

function syncOf(
  artifacts: PlannedOperation['artifacts'],
  component: string | null,
  config: PlannedOperation['config'],
): PlannedOperation {
  const plugin = { name: 'sync', repository: 'tenon/plugins/sync', digest: null }
  return { operation: 'sync', plugin, component, artifacts, approvedPlan: null, config }
}

function pluginArtifact({ repository, digest }: PlannedOperation['plugin']) {
  return { name: 'plugin', repository, digest: digest! }
}

function componentOperation(
  plugins: Plugins,
  subject: StepSubject,
  operation: 'plan' | 'deploy' | 'destroy',
): PlannedOperation {
  const component = componentOf(subject)
  const artifact = artifactOf(subject)
  return {
    operation,
    plugin: pluginOf(plugins, component.type, artifact),
    component: component.name,
    artifacts: [{ name: 'artifact', ...artifact }],
    approvedPlan: operation === 'deploy' ? subject.approvedPlan : null,
    config: componentConfig(subject, component),
  }
}

const SECRETS_PLUGIN = 'kubernetes_secrets'

function secretsOperation(
  plugins: Plugins,
  subject: StepSubject,
  operation: 'deploy' | 'destroy',
): PlannedOperation {
  return {
    operation,
    plugin: pluginFor(plugins, SECRETS_PLUGIN),
    component: null,
    artifacts: [],
    approvedPlan: null,
    config: secretsConfig(subject),
  }
}

function actionOperation(plugins: Plugins, subject: StepSubject): PlannedOperation {
  const config = actionConfig(subject, subject.action ?? '')
  if (!config) throw new ApiFailure('wrong_state', `the app no longer has an action ${subject.action}`)
  return {
    operation: 'action',
    plugin: pluginFor(plugins, 'action'),
    component: subject.component,
    artifacts: actionArtifacts(subject),
    approvedPlan: null,
    config,
  }
}

function actionArtifacts({ app, action, actions }: StepSubject): PlannedOperation['artifacts'] {
  const known = app.actions?.find(({ name }) => name === action)
  if (!known || !isBuilt(known)) return []
  const artifact = actions.get(known.name)
  if (artifact) return [{ name: 'artifact', ...artifact }]
  const key = actionKey(known.name, null)
  // A step keeps only the message.
  throw new ApiFailure(
    'no_build',
    `${key} was not built when this run was decided; run \`${buildCommand([key])}\`, then decide again`,
  )
}

/** A vendor's own type brings its plugin along: what was built is what runs it. */
function pluginOf(
  plugins: Plugins,
  type: string,
  artifact: { repository: string; digest: string },
): PlannedOperation['plugin'] {
  return type === 'plugin' ? { name: type, ...artifact } : pluginFor(plugins, type)
}

function componentOf({ app, component }: StepSubject) {
  const found = app.components.find((c) => c.name === component)
  if (found) return found
  throw new ApiFailure('wrong_state', `the app no longer has a component ${component}`)
}

function artifactOf({ artifact, component }: StepSubject): { repository: string; digest: string } {
  if (artifact) return artifact
  throw new ApiFailure('no_build', `component ${component} has no artifact`)
}
