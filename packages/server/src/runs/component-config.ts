import {
  canonicalText,
  documentDigest,
  effectiveInputs,
  kubernetesTargets,
  usesOf,
  type App,
  type AppSecret,
  type Component,
  type Json,
  type Uses,
} from '@tenon/core'
import { inputSecretName, type ComponentJobConfig } from '@tenon/protocol'
import { sha256 } from '../crypto.ts'

/** What is on an install, or is to be: by component. */
export interface InstalledComponent {
  status: string
  buildId: string
  artifact: { repository: string; digest: string }
}

export interface InstallFacts {
  id: string
  name: string
  sandbox_type: string
  inputs: { [key: string]: Json }
  overrides: { [component: string]: { [key: string]: Json } }
}

export interface ConfigSubject {
  app: App
  appVersion: number
  install: InstallFacts
  components: ReadonlyMap<string, InstalledComponent>
}

/** Pure: what the job of a component is told. It names secrets and other components; it holds no secret value. */
export function componentConfig(subject: ConfigSubject, component: Component): ComponentJobConfig {
  return jobConfig(subject, {
    config: component.config,
    type: component.type,
    dependencies: component.dependencies,
    declared: stringList(component.config['secrets']),
    overrides: subject.install.overrides[component.name] ?? {},
    health: component.settings?.health ?? null,
    policies: (subject.app.policies ?? []).filter(
      ({ engine, type, components }) =>
        engine === 'cel' &&
        (type === component.type || type === '*') &&
        (components.length === 0 || components.includes(component.name)),
    ),
  })
}

/** The same for an action: it may read the outputs of whatever its templates name. */
export function actionConfig(subject: ConfigSubject, name: string): ComponentJobConfig | undefined {
  const action = subject.app.actions?.find((each) => each.name === name)
  if (!action) return undefined
  const { dependencies, timeoutSeconds, enableKubeConfig = false } = action
  const steps = action.steps as unknown as Json
  return jobConfig(subject, {
    config: { name, steps, enableKubeConfig, limits: { timeoutSeconds } },
    type: 'action',
    dependencies,
    declared: [],
    overrides: {},
    health: null,
    policies: [],
  })
}

/** The same for the secrets that the install's cluster keeps: their names, and where each goes. */
export function secretsConfig(subject: ConfigSubject): ComponentJobConfig {
  const targets = kubernetesTargets(subject.app).map(({ secret, namespace, name, key }) => ({
    secret: secret.name,
    required: secret.required,
    isEncoded: secret.format === 'base64',
    namespace,
    name,
    key,
  }))
  return jobConfig(subject, {
    config: { targets },
    type: 'kubernetes_secrets',
    dependencies: [],
    declared: [...new Set(targets.map(({ secret }) => secret))],
    overrides: {},
    health: null,
    policies: [],
  })
}

/** Names what a deploy of a component is made of besides its artifact, so that a change of it shows. */
export function configDigest(subject: ConfigSubject, component: Component): string {
  return digestOfConfig(componentConfig(subject, component))
}

/** The same of what a job was told. */
export function digestOfConfig(told: { [key: string]: Json }): string {
  const { component: config, inputs, overrides } = told as ComponentJobConfig
  const used = usesOf({ config, overrides }).inputs
  const read = Object.entries(inputs).filter(([name]) => isUsed(used, name))
  return documentDigest(canonicalText({ config, inputs: Object.fromEntries(read), overrides }), sha256)
}

interface Part {
  config: { [key: string]: Json }
  type: string
  dependencies: string[]
  declared: string[]
  overrides: { [key: string]: Json }
  health: ComponentJobConfig['health']
  policies: ComponentJobConfig['policies']
}

function jobConfig(subject: ConfigSubject, part: Part): ComponentJobConfig {
  const { app, install } = subject
  const uses = usesOf({ config: part.config, overrides: part.overrides })
  const sensitiveInputs = (app.inputs ?? [])
    .filter(({ name, sensitive }) => sensitive && isUsed(uses.inputs, name))
    .map(({ name }) => name)
  const declared = (app.secrets ?? []).filter(({ name }) => isUsed([...uses.secrets, ...part.declared], name))
  const secrets = declared.map(({ name }) => name)
  const own = uses.secrets.filter((name) => name !== '*')
  return {
    component: part.config,
    type: part.type,
    install: { id: install.id, name: install.name },
    app: { name: app.name, version: subject.appVersion },
    sandbox: { type: install.sandbox_type, outputs: {} },
    inputs: effectiveInputs(app, install.inputs),
    sensitiveInputs,
    secrets: [...new Set([...part.declared, ...own, ...secrets, ...sensitiveInputs.map(inputSecretName)])],
    absentSecrets: absentSecrets(declared),
    dependencies: dependenciesOf(app, part, uses),
    components: Object.fromEntries(
      app.components.flatMap(({ name, type, varName = null }) => {
        const there = subject.components.get(name)
        return there ? [[name, { ...there, type, varName }]] : []
      }),
    ),
    overrides: part.overrides,
    health: part.health,
    policies: part.policies.map(({ name, contents }) => ({ name, contents })),
  }
}

function absentSecrets(secrets: readonly AppSecret[]): ComponentJobConfig['absentSecrets'] {
  const rules: ComponentJobConfig['absentSecrets'] = {}
  for (const { name, autoGenerate, format, default: preset } of secrets) {
    if (autoGenerate) rules[name] = { how: 'generate', format }
    else if (preset !== undefined) rules[name] = { how: 'preset', value: preset }
  }
  return rules
}

/** What the templates read, besides what the component says that it depends on. */
function dependenciesOf(app: App, { dependencies }: Part, uses: Uses): string[] {
  const read = app.components.filter(({ name, varName }) =>
    [name, name.replaceAll('-', '_'), varName ?? name].some((each) => isUsed(uses.components, each)),
  )
  return [...new Set([...dependencies, ...read.map(({ name }) => name)])]
}

function isUsed(names: readonly string[], name: string): boolean {
  return names.includes(name) || names.includes('*')
}

function stringList(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
}
