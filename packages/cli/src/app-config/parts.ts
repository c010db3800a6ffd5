import { basename, dirname } from 'node:path'
import type { AppAction, AppInput, AppPolicy, AppSecret, Component, InputGroup, Json } from '@tenon/core'
import { OWN_FIELDS, toAction, toComponent, toInput, toInputGroup, toPolicy, toSecret } from './assemble.ts'
import { idlePart } from './check-file.ts'
import { CONFIG_BESIDE_SOURCE } from './find-files.ts'
import type { Checkout } from './git-checkout.ts'
import { toInstall, type InstallConfig } from './install-config.ts'
import type { Path } from './locate.ts'
import type { FileKind } from './schemas/kinds.ts'
import { findSource, gitSource } from './source-folder.ts'
import type { TomlFile } from './toml-file.ts'

export interface LoadedFile {
  toml: TomlFile
  kind: FileKind
}

interface Part<T> {
  value: T
  toml: TomlFile
  path: Path
}

/** What the files say, each with where it says so. */
export interface Parts {
  components: (Part<Component> & { folder: string | undefined })[]
  inputs: Part<AppInput>[]
  groups: Part<InputGroup>[]
  secrets: Part<AppSecret>[]
  policies: Part<AppPolicy>[]
  actions: Part<AppAction>[]
  installs: InstallConfig[]
  carried: { [file: string]: Json }
}

/** Takes checked files apart into what an app consists of. */
export async function collectParts(
  folder: string,
  checkout: Checkout | undefined,
  files: readonly LoadedFile[],
): Promise<Parts> {
  const parts: Parts = {
    components: [],
    inputs: [],
    groups: [],
    secrets: [],
    policies: [],
    actions: [],
    installs: [],
    carried: {},
  }
  for (const file of files) {
    const { toml, kind } = file
    if (kind.name.startsWith('component-')) {
      const found = await findSource(folder, checkout, toml, toml.value)
      const value = toComponent(toml.value, found?.source)
      parts.components.push({ value, toml, path: [], folder: found?.folder })
    } else collect(file, parts)
    const kept = carriedOf(file)
    if (kept !== undefined) parts.carried[toml.file] = kept
    if (Object.keys(toml.fetched).length > 0) parts.carried[`${toml.file} (fetched)`] = toml.fetched
  }
  return parts
}

type Values<T> = T & { [key: string]: Json }

function collect({ toml, kind }: LoadedFile, parts: Parts): void {
  const value = toml.value as never
  const own = basename(toml.file, '.toml')
  const name = basename(toml.file) === CONFIG_BESIDE_SOURCE ? basename(dirname(toml.file)) : own
  const each = <T>(list: Part<T>[], field: string, convert: (item: never, index: number) => T): void => {
    for (const [i, item] of ((toml.value[field] ?? []) as never[]).entries())
      list.push({ value: convert(item, i), toml, path: [field, i] })
  }
  const one = <T>(list: Part<T>[], converted: T): void => void list.push({ value: converted, toml, path: [] })
  switch (kind.name) {
    case 'input':
      return one(parts.inputs, toInput(value))
    case 'input_group':
      return one(parts.groups, toInputGroup(value))
    case 'inputs':
      each(parts.inputs, 'input', toInput)
      return each(parts.groups, 'group', toInputGroup)
    case 'secret':
      return one(parts.secrets, toSecret(value))
    case 'secrets':
      return each(parts.secrets, 'secret', toSecret)
    case 'policy':
      return one(parts.policies, toPolicy(value, name))
    case 'policies':
      return each(parts.policies, 'policy', (item, i) => toPolicy(item, `${name}-${i + 1}`))
    case 'action':
      return one(parts.actions, toAction(value, sourceOfStep))
    case 'install':
      parts.installs.push(toInstall(toml.file, toml.value))
  }
}

function sourceOfStep(step: Values<object>) {
  const repo = step['connected_repo'] ?? step['public_repo']
  return repo === undefined ? undefined : gitSource(repo as unknown as { repo: string })
}

/** What has no place in the app, so that nothing is lost and a diff sees it. */
function carriedOf({ toml, kind }: LoadedFile): Json | undefined {
  if (kind.name === 'install') return undefined
  if (kind.whole) return toml.value
  const kept = idlePart(kind.schema, toml.value)
  if (!kind.name.startsWith('component-') || kept === undefined) return kept
  const own = Object.entries(kept as { [key: string]: Json }).filter(([key]) => OWN_FIELDS.has(key))
  return own.length > 0 ? Object.fromEntries(own) : undefined
}
