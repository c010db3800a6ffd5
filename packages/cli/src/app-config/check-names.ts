import type { Json } from '@tenon/core'
import { fieldName } from './check-file.ts'
import type { Path } from './locate.ts'
import { expectOneOf } from './nearest.ts'
import type { LoadedFile, Parts } from './parts.ts'
import type { TomlFile } from './toml-file.ts'
import { textOf } from './text-of.ts'

/** Names that stand for something in another file, and names that are taken twice. */
export function checkNames(files: readonly LoadedFile[], parts: Parts): void {
  const components = parts.components.map(({ value }) => value.name)
  const actions = parts.actions.map(({ value }) => value.name)
  for (const { toml, kind } of files) {
    const value = toml.value
    if (kind.name === 'action') {
      eachOf(value['triggers'], (t, i) =>
        known(toml, ['triggers', i, 'component_name'], t['component_name'], 'component', components),
      )
      listed(toml, 'dependencies', 'component or action', [...components, ...actions])
    }
    if (kind.name === 'runbook') {
      eachOf(value['steps'], (s, i) => {
        known(toml, ['steps', i, 'component_name'], s['component_name'], 'component', components)
        known(toml, ['steps', i, 'action_name'], s['action_name'], 'action', actions)
      })
    }
    if (kind.name === 'policy') listed(toml, 'components', 'component', [...components, '*'])
    if (kind.name === 'policies')
      eachOf(value['policy'], (p, i) => {
        for (const [n, name] of list(p['components']).entries())
          known(toml, ['policy', i, 'components', n], name, 'component', [...components, '*'])
      })
    if (kind.name === 'operation_roles')
      eachOf(value['rules'], (r, i) => {
        const [, part, name] = /^nuon::(component|action):(.+)$/.exec(textOf(r['principal'])) ?? []
        const names = part === 'component' ? components : actions
        if (name !== undefined && name !== '*') known(toml, ['rules', i, 'principal'], name, part!, names)
      })
  }
  once(parts.inputs, 'input')
  once(parts.secrets, 'secret')
  once(parts.actions, 'action')
  once(parts.groups, 'input group')
  const groups = parts.groups.map(({ value }) => value.name)
  for (const { toml, path, value } of parts.inputs) {
    if (value.group !== '' && !groups.includes(value.group))
      toml.warning(
        [...path, 'group'],
        `there is no input group ${value.group}; expected ${expectOneOf(value.group, groups, 'a group of that name')}`,
      )
  }
}

function known(
  toml: TomlFile,
  path: Path,
  name: Json | undefined,
  what: string,
  names: readonly string[],
): void {
  if (typeof name !== 'string' || names.includes(name)) return
  toml.problem(
    path,
    `${fieldName(path)}: there is no ${what} ${name}`,
    expectOneOf(name, names, `one that the app has: it has no ${what}s`),
  )
}

function listed(toml: TomlFile, field: string, what: string, names: readonly string[]): void {
  for (const [i, name] of list(toml.value[field]).entries()) known(toml, [field, i], name, what, names)
}

function once(parts: readonly { value: { name: string }; toml: TomlFile; path: Path }[], what: string): void {
  const seen = new Set<string>()
  for (const { value, toml, path } of parts) {
    if (seen.has(value.name))
      toml.problem([...path, 'name'], `another ${what} is named ${value.name}`, 'a name of its own')
    seen.add(value.name)
  }
}

function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : []
}

function eachOf(
  value: Json | undefined,
  visit: (table: { [key: string]: Json }, index: number) => void,
): void {
  for (const [i, table] of list(value).entries()) visit(table as { [key: string]: Json }, i)
}
