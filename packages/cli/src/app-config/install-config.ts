import type { Json } from '@tenon/core'
import { textOf } from './text-of.ts'

type Table = { [key: string]: Json }

/** An install as `installs/*.toml` describes it. */
export interface InstallConfig {
  file: string
  name: string
  approval: 'approve-all' | 'prompt'
  account: { cloud: 'aws' | 'gcp' | 'azure'; settings: { [key: string]: Json } } | null
  labels: { [key: string]: string }
  inputs: { [name: string]: Json }
  /** Components that are switched on or off here. */
  toggles: { [component: string]: boolean }
  /** What is other here than in the app, by component. */
  components: { [component: string]: { helmValues?: Json; tfVars?: Json; health?: Json } }
}

/** Of a file that has been checked. */
export function toInstall(file: string, value: Table): InstallConfig {
  return {
    file,
    name: textOf(value['name']),
    approval: value['approval_option'] === 'approve-all' ? 'approve-all' : 'prompt',
    account: accountOf(value),
    labels: Object.fromEntries(
      Object.entries((value['labels'] ?? {}) as { [key: string]: string | number | boolean }).map(
        ([k, v]) => [k, String(v)],
      ),
    ),
    inputs: inputsOf(value['inputs']),
    toggles: (value['component_toggles'] ?? {}) as { [component: string]: boolean },
    components: Object.fromEntries(
      Object.entries((value['components'] ?? {}) as { [name: string]: Table }).map(([name, each]) => [
        name,
        {
          ...(each['helm_values'] === undefined ? {} : { helmValues: each['helm_values'] }),
          ...(each['tf_vars'] === undefined ? {} : { tfVars: each['tf_vars'] }),
          ...(each['health'] === undefined ? {} : { health: each['health'] }),
        },
      ]),
    ),
  }
}

function accountOf(value: Table): InstallConfig['account'] {
  for (const cloud of ['aws', 'gcp', 'azure'] as const) {
    const settings = value[`${cloud}_account`]
    if (settings !== undefined) return { cloud, settings: settings as Table }
  }
  return null
}

/** One table, or several of which later ones count over earlier ones. */
function inputsOf(inputs: Json | undefined): { [name: string]: Json } {
  if (Array.isArray(inputs)) return Object.assign({}, ...(inputs as Table[])) as Table
  return (inputs ?? {}) as Table
}
