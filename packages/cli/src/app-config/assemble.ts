import { KUBERNETES_KEY } from '@tenon/core'
import type {
  ActionStep,
  AppAction,
  AppInput,
  AppPolicy,
  AppSecret,
  Component,
  ComponentHealth,
  ComponentSettings,
  ComponentSource,
  EgressName,
  InputGroup,
  Json,
} from '@tenon/core'
import type { z } from 'zod'
import { OLDER_TYPES } from './schemas/components.ts'
import { durationSeconds } from './schemas/fields.ts'
import type * as operations from './schemas/operations.ts'
import { OLDER_TRIGGERS } from './schemas/operations.ts'
import type * as parts from './schemas/parts.ts'
import { textOf } from './text-of.ts'

type Table = { [key: string]: Json }

/** Fields of a component that have a place of their own; what else there is belongs to its type. */
export const OWN_FIELDS: ReadonlySet<string> = new Set([
  'name',
  'type',
  'var_name',
  'labels',
  'dependencies',
  'operation_roles',
  'toggleable',
  'default_enabled',
  'kubernetes_context',
  'build_timeout',
  'deploy_timeout',
  'max_auto_retries',
  'skip_noops',
  'auto_approve_on_policies_passing',
  'drift_schedule',
  'health',
  'images',
  'egress',
  'source',
  'public_repo',
  'connected_repo',
])

/** Only the keys that have a value. */
function defined<T extends object>(value: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as T
}

/** A component of a file that has been checked. */
export function toComponent(value: Table, source: ComponentSource | undefined): Component {
  const type = textOf(value['type'])
  const helmTimeout = type === 'helm_chart' ? 'timeout' : ''
  const config = Object.entries(value).filter(([key]) => !OWN_FIELDS.has(key) && key !== helmTimeout)
  const settings = toSettings(value, helmTimeout)
  return {
    name: textOf(value['name']),
    type: OLDER_TYPES[type] ?? type,
    dependencies: (value['dependencies'] as string[] | undefined) ?? [],
    config: withService(Object.fromEntries(config)),
    ...defined<Pick<Component, 'varName' | 'source' | 'settings'>>({
      varName: value['var_name'] as string | undefined,
      source,
      settings: Object.keys(settings).length > 0 ? settings : undefined,
    }),
  }
}

/** The service that an image runs as, under the names by which its plugin knows it. */
function withService(config: Table): Table {
  const { basic, ...rest } = config
  if (basic === undefined) return config
  const { env_vars: env, ...service } = basic as Table
  return { ...rest, service: { ...service, ...(env === undefined ? {} : { env }) } }
}

function toSettings(value: Table, helmTimeout: string): ComponentSettings {
  return defined<ComponentSettings>({
    labels:
      value['labels'] === undefined
        ? undefined
        : textTable(value['labels'] as { [key: string]: string | number | boolean }),
    toggleable: value['toggleable'] as boolean | undefined,
    defaultEnabled: value['default_enabled'] as boolean | undefined,
    buildTimeoutSeconds: secondsOf(value['build_timeout']),
    deployTimeoutSeconds: secondsOf(value['deploy_timeout'] ?? value[helmTimeout]),
    maxAutoRetries: value['max_auto_retries'] as number | undefined,
    skipNoops: value['skip_noops'] as boolean | undefined,
    autoApproveOnPoliciesPassing: value['auto_approve_on_policies_passing'] as boolean | undefined,
    driftSchedule: value['drift_schedule'] as string | undefined,
    images: value['images'] as string[] | undefined,
    egress: toEgress(value['egress'] as EgressTable[] | undefined),
    health: value['health'] === undefined ? undefined : toHealth(value['health'] as Table),
  })
}

type EgressTable = { host: string; port?: number | undefined }

function toEgress(egress: readonly EgressTable[] | undefined): EgressName[] | undefined {
  return egress?.map(({ host, port = 443 }) => ({ host, port }))
}

function toHealth(health: Table): ComponentHealth {
  return {
    probes: (health['probes'] as ComponentHealth['probes'] | undefined) ?? [],
    blockDeploy: health['block_deploy'] === true,
    stabilizationSeconds: secondsOf(health['stabilization_window']) ?? 0,
  }
}

export function toInput(input: z.infer<typeof parts.input>): AppInput {
  const internal = input.internal ?? input.source === 'vendor'
  return {
    name: input.name,
    displayName: input.display_name ?? input.name,
    description: input.description ?? '',
    group: input.group ?? '',
    type: input.type ?? 'string',
    required: input.required ?? false,
    sensitive: input.sensitive ?? false,
    internal,
    userConfigurable: input.user_configurable ?? (input.source === 'customer' || !internal),
    ...(input.default === undefined ? {} : { default: input.default as Json }),
  }
}

export function toInputGroup(group: z.infer<typeof parts.inputGroup>): InputGroup {
  return {
    name: group.name,
    displayName: group.display_name ?? group.name,
    description: group.description ?? '',
  }
}

export function toSecret(secret: z.infer<typeof parts.secret>): AppSecret {
  const { kubernetes_secret_namespace: namespace, kubernetes_secret_name: name } = secret
  const isSynced = secret.kubernetes_sync === true
  const synced = isSynced && namespace !== undefined && name !== undefined
  const more = (isSynced && secret.kubernetes_sync_targets) || []
  const targets = more.flatMap((target) =>
    (target.namespaces ?? [namespace ?? 'default']).map((place) => ({
      namespace: place,
      name: target.name,
      key: target.key ?? KUBERNETES_KEY,
    })),
  )
  return {
    name: secret.name,
    displayName: secret.display_name ?? secret.name,
    description: secret.description ?? '',
    required: secret.required ?? false,
    autoGenerate: secret.auto_generate ?? false,
    format: secret.format ?? '',
    ...(secret.default === undefined ? {} : { default: String(secret.default) }),
    ...(synced ? { kubernetes: { namespace, name } } : {}),
    ...(targets.length > 0 ? { kubernetesTargets: targets } : {}),
  }
}

export function toPolicy(policy: z.infer<typeof parts.policy>, name: string): AppPolicy {
  const components = policy.components ?? []
  return {
    name: policy.name ?? name,
    type: policy.type,
    engine: policy.engine ?? (policy.type === 'kubernetes_cluster' ? 'kyverno' : 'opa'),
    contents: policy.contents,
    components: components.includes('*') ? [] : components,
  }
}

type ActionFile = z.infer<typeof operations.action>

export function toAction(
  action: ActionFile,
  sourceOf: (step: Table) => ComponentSource | undefined,
): AppAction {
  const labels = { ...(action.label === undefined ? {} : { label: action.label }), ...action.labels }
  const kube =
    action.enable_kube_config ?? (action.steps.some((step) => step.enable_kube_config) || undefined)
  return {
    name: action.name,
    timeoutSeconds: durationSeconds(action.timeout)!,
    dependencies: action.dependencies ?? [],
    triggers: action.triggers.map((trigger) => ({
      type: OLDER_TRIGGERS[trigger.type] ?? trigger.type,
      ...defined<Omit<AppAction['triggers'][number], 'type'>>({
        component: trigger.component_name,
        cron: trigger.cron_schedule ?? trigger.schedule,
        index: trigger.index,
      }),
    })),
    steps: action.steps.map((step) => ({
      name: step.name,
      ...defined<Omit<ActionStep, 'name'>>({
        command: step.command,
        inlineContents: step.inline_contents,
        env: step.env_vars === undefined ? undefined : textTable(step.env_vars),
        source: sourceOf(step as Table),
      }),
    })),
    ...defined<Pick<AppAction, 'labels' | 'role' | 'enableKubeConfig' | 'egress'>>({
      labels: Object.keys(labels).length > 0 ? textTable(labels) : undefined,
      role: action.role,
      enableKubeConfig: kube,
      egress: toEgress(action.egress),
    }),
  }
}

function textTable(table: { [key: string]: string | number | boolean }): { [key: string]: string } {
  return Object.fromEntries(Object.entries(table).map(([key, value]) => [key, String(value)]))
}

function secondsOf(value: Json | undefined): number | undefined {
  return typeof value === 'string' ? durationSeconds(value) : undefined
}
