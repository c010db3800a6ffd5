import type { App } from '@tenon/core'
import { configDigest, type InstallFacts } from '../runs/component-config.ts'
import { newestBuilds } from '../runs/newest-builds.ts'
import type { Tx } from '../store/transaction.ts'

/** What differs from what is there: another build, another configuration or input, drift, or not deployed well. */
export async function changedComponents(
  tx: Tx,
  install: InstallFacts & { app_id: string },
  app: App,
): Promise<Set<string>> {
  const names = app.components.map(({ name }) => name)
  const [there, builds] = await Promise.all([
    tx.db
      .selectFrom('install_component')
      .select(['component', 'status', 'build_id', 'config_digest', 'drift'])
      .where('install_id', '=', install.id)
      .execute(),
    newestBuilds(tx, install.app_id, names),
  ])
  const byName = new Map(there.map((row) => [row.component, row]))
  const newest = new Map(builds.map((build) => [build.component, build.id]))
  const subject = { app, appVersion: 0, install, components: new Map() }
  const changed = app.components.filter((component) => {
    const row = byName.get(component.name)
    return (
      row?.status !== 'deployed' ||
      row.drift !== null ||
      row.build_id !== newest.get(component.name) ||
      row.config_digest !== configDigest(subject, component)
    )
  })
  return new Set(changed.map(({ name }) => name))
}
