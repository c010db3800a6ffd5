import { whyIdle, type Json } from '@tenon/core'
import { OLDER_TRIGGERS } from './schemas/operations.ts'
import type { TomlFile } from './toml-file.ts'
import { textOf } from './text-of.ts'

type Table = { [key: string]: Json }

/** Rules about several fields together, by kind of file; each field by itself is right already. */
export function checkMeaning(toml: TomlFile, kind: string): void {
  const value = toml.value
  if (kind.startsWith('component-')) checkComponent(toml, kind.slice('component-'.length))
  else if (kind === 'action') checkAction(toml)
  else if (kind === 'sandbox') {
    if (value['type'] !== 'pulumi' && value['terraform_version'] === undefined)
      toml.problem(['terraform_version'], 'terraform_version is missing', 'a string')
    atMostOne(toml, ['public_repo', 'connected_repo'])
  } else if (kind === 'operation_roles') checkRules(toml)
  else if (kind === 'input') checkInput(toml, value, [])
  else if (kind === 'inputs')
    tables(value['input']).forEach((each, i) => checkInput(toml, each, ['input', i]))
  else if (kind === 'policy') checkPolicy(toml, value, [])
  else if (kind === 'policies')
    tables(value['policy']).forEach((each, i) => checkPolicy(toml, each, ['policy', i]))
  else if (kind === 'secret') checkSecret(toml, value, [])
  else if (kind === 'secrets')
    tables(value['secret']).forEach((each, i) => checkSecret(toml, each, ['secret', i]))
}

const SOURCES = ['source', 'public_repo', 'connected_repo']

/** Of what a type needs exactly one, and of what it takes at most one. */
const CHOICES: Readonly<Record<string, { one?: string[]; most?: string[] }>> = {
  terraform_module: { one: SOURCES },
  helm_chart: { one: ['helm_repo', ...SOURCES] },
  kubernetes_manifest: { one: ['manifest', 'kustomize'], most: SOURCES },
  docker_build: { one: SOURCES },
  container_image: { one: ['public', 'aws_ecr', 'gcp_gar'] },
  pulumi: { one: SOURCES },
  plugin: { most: SOURCES },
}

function checkComponent(toml: TomlFile, type: string): void {
  const value = toml.value
  const { one, most } = CHOICES[type] ?? {}
  if (one) exactlyOne(toml, one)
  if (most) atMostOne(toml, most)
  if (type === 'kubernetes_manifest' && value['kustomize'] !== undefined) exactlyOne(toml, SOURCES)
  if (type === 'pulumi')
    toml.warning(['type'], 'pulumi components are kept, but a deploy refuses them for now')
  if (value['default_enabled'] !== undefined && value['toggleable'] !== true)
    toml.warning(['default_enabled'], 'default_enabled only counts with toggleable = true')
  tables(value['values_file']).forEach((file, i) => {
    const given = ['contents', 'path'].filter((key) => file[key] !== undefined)
    if (given.length !== 1)
      toml.problem(
        ['values_file', i],
        `values_file[${i}] has ${given.join(' and ') || 'nothing'}`,
        'contents or path',
      )
  })
  tables((value['health'] as Table | undefined)?.['probes']).forEach((probe, i) => {
    const needed = probe['type'] === 'exec' ? 'command' : 'url'
    if (probe[needed] === undefined)
      toml.problem(
        ['health', 'probes', i],
        `health.probes[${i}].${needed} is missing`,
        `a ${needed} for type ${textOf(probe['type'])}`,
      )
  })
}

function checkAction(toml: TomlFile): void {
  tables(toml.value['triggers']).forEach((trigger, i) => {
    const type = textOf(trigger['type'])
    const path = ['triggers', i]
    if (type === 'cron' && trigger['cron_schedule'] === undefined && trigger['schedule'] === undefined)
      toml.problem(path, `triggers[${i}].cron_schedule is missing`, 'a cron schedule for type cron')
    const ofComponent = type.endsWith('-component') || type.endsWith('-component-deploy')
    if (ofComponent && trigger['component_name'] === undefined)
      toml.problem(path, `triggers[${i}].component_name is missing`, `a component for type ${type}`)
    const why = whyIdle(OLDER_TRIGGERS[type] ?? type)
    if (why !== undefined) toml.warning([...path, 'type'], `nothing acts on the trigger ${type} yet: ${why}`)
  })
  tables(toml.value['steps']).forEach((step, i) => {
    if (step['command'] === undefined && step['inline_contents'] === undefined)
      toml.problem(['steps', i], `steps[${i}] does nothing`, 'command or inline_contents')
    const repos = ['public_repo', 'connected_repo'].filter((field) => step[field] !== undefined)
    if (repos.length > 1)
      toml.problem(['steps', i], `steps[${i}] has public_repo and connected_repo`, 'only one of them')
  })
}

const RULE_OPERATIONS: Readonly<Record<string, string[]>> = {
  sandbox: ['provision', 'reprovision', 'deprovision'],
  component: ['deploy', 'teardown'],
  action: ['trigger'],
}

function checkRules(toml: TomlFile): void {
  tables(toml.value['rules']).forEach((rule, i) => {
    const subject = textOf(rule['principal']).replace('nuon::', '').split(':')[0] ?? ''
    const allowed = RULE_OPERATIONS[subject] ?? []
    if (!allowed.includes(textOf(rule['operation'])))
      toml.problem(
        ['rules', i, 'operation'],
        `rules[${i}].operation does not fit ${subject}`,
        allowed.join(', '),
      )
  })
}

function checkInput(toml: TomlFile, input: Table, at: (string | number)[]): void {
  const given = input['default']
  const expected = DEFAULTS[textOf(input['type'])]?.(given)
  if (given !== undefined && given !== '' && expected !== undefined)
    toml.problem([...at, 'default'], 'default has a wrong value', expected)
  if (input['internal'] === true && input['user_configurable'] === true)
    toml.problem(
      [...at, 'internal'],
      'internal and user_configurable are both true',
      'one of them: the vendor or the customer sets it',
    )
}

/** What a default must be, when it is something else. */
const DEFAULTS: Readonly<Record<string, (value: Json | undefined) => string | undefined>> = {
  number: (value) => (Number.isFinite(Number(value)) && typeof value !== 'boolean' ? undefined : 'a number'),
  bool: (value) =>
    ['true', 'false', true, false].includes(value as string | boolean) ? undefined : 'true or false',
  json: (value) => (typeof value !== 'string' || parses(value) ? undefined : 'JSON'),
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function checkPolicy(toml: TomlFile, policy: Table, at: (string | number)[]): void {
  if (policy['engine'] === undefined)
    toml.warning([...at, 'type'], 'a policy without engine is kept: only engine = "cel" is evaluated for now')
}

function checkSecret(toml: TomlFile, secret: Table, at: (string | number)[]): void {
  if (secret['kubernetes_sync'] !== true || secret['kubernetes_sync_targets'] !== undefined) return
  for (const field of ['kubernetes_secret_namespace', 'kubernetes_secret_name']) {
    if (secret[field] === undefined)
      toml.problem([...at, field], `${field} is missing`, 'a string, with kubernetes_sync = true')
  }
}

function exactlyOne(toml: TomlFile, fields: readonly string[]): void {
  const given = fields.filter((field) => toml.value[field] !== undefined)
  const list = `${fields.slice(0, -1).join(', ')} or ${fields.at(-1)}`
  if (given.length === 0) toml.problem([], `there is none of ${fields.join(', ')}`, list)
  else atMostOne(toml, fields)
}

function atMostOne(toml: TomlFile, fields: readonly string[]): void {
  const given = fields.filter((field) => toml.value[field] !== undefined)
  if (given.length > 1) toml.problem([given[1]!], `${given.join(' and ')} are both given`, 'only one of them')
}

function tables(value: Json | undefined): Table[] {
  return Array.isArray(value) ? (value as Table[]) : []
}
