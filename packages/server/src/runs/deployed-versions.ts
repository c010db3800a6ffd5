import type { App } from '@tenon/core'
import { sql } from 'kysely'
import type { Tx } from '../store/transaction.ts'

export interface DeployedVersion {
  component: string
  number: number
  content: App
}

/** The version of the app with which each component was last deployed, as far as its deploy got; by `versionKey`. */
export async function deployedVersions(
  tx: Tx,
  of: readonly { installId: string; component: string }[],
): Promise<Map<string, DeployedVersion>> {
  if (of.length === 0) return new Map()
  const { rows } = await sql<DeployedVersion & { install_id: string }>`
    select w.install_id, w.component, v.number, v.content
    from unnest(${of.map((one) => one.installId)}::text[], ${of.map((one) => one.component)}::text[])
      as w(install_id, component)
    cross join lateral (
      select run.app_version_id from deploy join run on run.id = deploy.run_id
      where deploy.install_id = w.install_id and deploy.component = w.component
      order by deploy.status in ('succeeded', 'failed', 'deploying', 'skipped') desc, deploy.id desc limit 1
    ) as last
    join app_version as v on v.id = last.app_version_id`.execute(tx.db)
  return new Map(rows.map((row) => [versionKey(row.install_id, row.component), row]))
}

export function versionKey(installId: string, component: string): string {
  return `${installId}/${component}`
}
