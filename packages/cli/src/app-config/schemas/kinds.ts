import type { z } from 'zod'
import * as access from './access.ts'
import { COMPONENT_TYPES } from './components.ts'
import * as operations from './operations.ts'
import * as parts from './parts.ts'

/** One kind of file of the app's folder. */
export interface FileKind {
  name: string
  /** What it is, for messages and schemas. */
  title: string
  schema: z.ZodObject
  /** Nothing of it has a place in the app yet: it is carried whole. */
  whole?: true
}

const kind = (name: string, title: string, schema: z.ZodObject, whole?: true): FileKind => ({
  name,
  title,
  schema,
  ...(whole ? { whole } : {}),
})

const COMPONENT_KINDS = Object.entries(COMPONENT_TYPES).map(([type, schema]) =>
  kind(`component-${type}`, `a ${type} component`, schema),
)

export const FILE_KINDS: ReadonlyMap<string, FileKind> = new Map(
  [
    kind('metadata', 'metadata.toml', parts.metadata),
    kind('inputs', 'inputs.toml', parts.inputs),
    kind('input', 'an input', parts.input),
    kind('input_group', 'an input group', parts.inputGroup),
    kind('secrets', 'secrets.toml', parts.secrets),
    kind('secret', 'a secret', parts.secret),
    kind('policies', 'policies.toml', parts.policies),
    kind('policy', 'a policy', parts.policy),
    kind('action', 'an action', operations.action),
    ...COMPONENT_KINDS,
    kind('install', 'an install', access.install),
    kind('sandbox', 'sandbox.toml', operations.sandbox, true),
    kind('runner', 'runner.toml', operations.runner, true),
    kind('stack', 'stack.toml', parts.stack, true),
    kind('permissions', 'permissions.toml', access.permissions, true),
    kind('permission', 'a role', access.permission, true),
    kind('operation_roles', 'operation_roles.toml', access.operationRolesFile, true),
    kind('break_glass', 'break_glass.toml', access.breakGlass, true),
    kind('runbook', 'a runbook', operations.runbook, true),
    kind('branch', 'a branch', operations.branch, true),
    kind('triggers', 'triggers.toml', operations.triggers, true),
    kind('installs', 'installs.toml', access.installs, true),
    kind('customer_managed', 'customer_managed.toml', parts.customerManaged, true),
    kind('kubernetes_contexts', 'kubernetes_contexts.toml', parts.kubernetesContexts, true),
    kind('installer', 'installer.toml', parts.installer, true),
  ].map((each) => [each.name, each] as const),
)

/** Files of the app's folder itself, by their name without `.toml`, with their kind. */
export const TOP_FILES: Readonly<Record<string, string>> = {
  metadata: 'metadata',
  sandbox: 'sandbox',
  runner: 'runner',
  stack: 'stack',
  inputs: 'inputs',
  secrets: 'secrets',
  permissions: 'permissions',
  operation_roles: 'operation_roles',
  break_glass: 'break_glass',
  policies: 'policies',
  branch: 'branch',
  triggers: 'triggers',
  installs: 'installs',
  installer: 'installer',
  customer_managed: 'customer_managed',
  kubernetes_contexts: 'kubernetes_contexts',
}

interface Folder {
  each: string
  /** The kind of a file that lists several. */
  many?: { kind: string; lists: readonly string[] }
  /** Folders in it may hold sources, whose TOML files are no config. */
  withSources?: true
}

/** Folders whose files, also those deeper in them, are each one of a kind. */
export const FOLDERS: Readonly<Record<string, Folder>> = {
  components: { each: 'component', withSources: true },
  actions: { each: 'action', withSources: true },
  inputs: { each: 'input', many: { kind: 'inputs', lists: ['input', 'group'] } },
  input_groups: { each: 'input_group', many: { kind: 'inputs', lists: ['group'] } },
  secrets: { each: 'secret', many: { kind: 'secrets', lists: ['secret'] } },
  policies: { each: 'policy', many: { kind: 'policies', lists: ['policy'] } },
  permissions: { each: 'permission' },
  break_glass: { each: 'break_glass' },
  runbooks: { each: 'runbook' },
  branches: { each: 'branch' },
  installs: { each: 'install' },
  'install-configs': { each: 'install' },
}
