import { ConfigRenderError, renderConfig, type Json } from '@tenon/core'
import { componentJobConfig, inputSecretName, jobState, type ComponentJobConfig } from '@tenon/protocol'
import { readConfig } from '../sdk/config.ts'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { JobOutputs } from '../sdk/job-api.ts'
import type { OperationContext } from '../sdk/plugin.ts'
import { imageOutputs, isImageType, nodeRegistry } from './images.ts'
import { Masker } from './masking.ts'

type Values = { [name: string]: Json }

export interface Rendered {
  config: ComponentJobConfig
  /** The component's own configuration, every template in it rendered. */
  component: Values
  overrides: Values
  health: ComponentJobConfig['health']
  masker: Masker
}

/** Renders the operation's configuration over what the install knows; `only` names what is needed (`a`, or `a.b`). */
export async function renderOperation(
  context: OperationContext,
  only?: readonly string[],
): Promise<Rendered> {
  const config = readConfig(context.operation, componentJobConfig)
  const masker = new Masker()
  const state = jobState(config, {
    sensitiveInputs: await sensitiveInputs(context, config, masker),
    secrets: await secretsOf(context, config, masker),
    outputs: await outputsOf(context, config, masker),
  })
  const wanted = only === undefined ? config.component : pick(config.component, only)
  const isWhole = only === undefined
  const rendered = renderOrExplain(config, () =>
    renderConfig(
      {
        component: wanted,
        overrides: isWhole ? config.overrides : {},
        health: isWhole ? (config.health as Json) : null,
      },
      state as unknown as Json,
    ),
  )
  const health = rendered.health as ComponentJobConfig['health']
  return { config, component: rendered.component, overrides: rendered.overrides, health, masker }
}

function renderOrExplain<T>(config: ComponentJobConfig, render: () => T): T {
  try {
    return render()
  } catch (error) {
    if (!(error instanceof ConfigRenderError)) throw error
    const place = error.path.slice(1).join('.') || 'the configuration'
    const message = error.message.startsWith(error.path.join('.'))
      ? error.message.replace(error.path.join('.'), place)
      : `${place}: ${error.message}`
    throw new PluginError(codeOf(config, error), `${message}.`, `${capital(error.next)}.`, error)
  }
}

function codeOf(config: ComponentJobConfig, error: ConfigRenderError) {
  if (error.code !== 'missing_value' || error.reference === undefined) return 'template_invalid'
  const way = error.reference.split('.')
  if (way[0] === 'components') return 'output_missing'
  const isSensitiveInput = way.includes('inputs') && config.sensitiveInputs.includes(way.at(-1) ?? '')
  return way[0] === 'secrets' || isSensitiveInput ? 'secret_missing' : 'template_invalid'
}

async function sensitiveInputs(
  context: OperationContext,
  config: ComponentJobConfig,
  masker: Masker,
): Promise<Values> {
  const known: Values = {}
  for (const input of config.sensitiveInputs) {
    if (!config.secrets.includes(inputSecretName(input))) continue
    const value = await absentIsFine(() => context.api.secret(inputSecretName(input)))
    if (value === undefined) continue
    masker.add(value)
    known[input] = value
  }
  return known
}

async function secretsOf(context: OperationContext, config: ComponentJobConfig, masker: Masker) {
  const known: { [name: string]: string } = {}
  const inputs = new Set(config.sensitiveInputs.map(inputSecretName))
  for (const name of config.secrets.filter((secret) => !inputs.has(secret))) {
    const value = await absentIsFine(() => context.api.secret(name))
    if (value === undefined) continue
    masker.add(value)
    known[name] = value
  }
  return known
}

async function outputsOf(
  context: OperationContext,
  config: ComponentJobConfig,
  masker: Masker,
): Promise<Map<string, Values>> {
  const node = nodeRegistry(context.job)
  const outputs = new Map<string, Values>()
  for (const [name, component] of Object.entries(config.components)) {
    const mayAsk = config.dependencies.includes(name)
    const given = mayAsk ? await absentIsFine(() => context.api.outputs(name)) : undefined
    const image = isImageType(component.type) ? { image: imageOutputs(node, component.artifact) } : undefined
    if (given !== undefined || image !== undefined) outputs.set(name, { ...valuesOf(given), ...image })
    hideSensitive(given, masker)
  }
  return outputs
}

function valuesOf(outputs: JobOutputs | undefined): Values {
  return Object.fromEntries(Object.entries(outputs ?? {}).map(([name, { value }]) => [name, value ?? null]))
}

function hideSensitive(outputs: JobOutputs | undefined, masker: Masker): void {
  for (const { sensitive, value } of Object.values(outputs ?? {})) if (sensitive) masker.add(value)
}

/** What the install does not have is an error only where a template needs it. */
async function absentIsFine<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (isPluginError(error) && error.code === 'job_api_refused') return undefined
    throw error
  }
}

function capital(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
}

function pick(values: Values, paths: readonly string[]): Values {
  const picked: Values = {}
  for (const [key, value] of Object.entries(values)) {
    const inner = paths.filter((path) => path.startsWith(`${key}.`)).map((path) => path.slice(key.length + 1))
    if (paths.includes(key)) picked[key] = value
    else if (inner.length > 0 && typeof value === 'object' && value !== null && !Array.isArray(value)) {
      picked[key] = pick(value, inner)
    }
  }
  return picked
}
