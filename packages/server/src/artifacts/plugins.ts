import type { PlannedOperation } from '@tenon/core'
import { ApiFailure } from '../errors.ts'
import type { Tx } from '../store/transaction.ts'

/** What runs a component of each type, by name. */
export type Plugins = ReadonlyMap<string, PlannedOperation['plugin']>

export async function loadPlugins(tx: Tx): Promise<Plugins> {
  const rows = await tx.db.selectFrom('plugin').select(['name', 'repository', 'digest']).execute()
  return new Map(rows.map((row) => [row.name, row]))
}

export function pluginFor(plugins: Plugins, name: string): PlannedOperation['plugin'] {
  const plugin = plugins.get(name)
  if (!plugin)
    throw new ApiFailure('bad_app', `no plugin handles the type ${name}`, {
      remedy: 'Use a type that this server has a plugin for.',
    })
  return plugin
}
