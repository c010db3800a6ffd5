import { sql } from 'kysely'
import { ApiFailure } from '../errors.ts'
import type { LockedRun } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'

interface Newer {
  component: string
  install: string
  version: number
  build: string
  by: string
  newer: number
  newer_build: string
}

/**
 * Refuses to do steps of a run again where something else was deployed since on what they are about: an old run brings what
 * was the newest as it was decided, and nobody asked for that to come back.
 */
export async function requireNothingNewer(
  tx: Tx,
  run: LockedRun,
  components: readonly string[],
): Promise<void> {
  const { rows } = await sql<Newer>`
    select mine.component, install.name as install, mine_version.number as version, mine.build_id as build,
      since.run_id as by, newer_version.number as newer, since.build_id as newer_build
    from deploy as mine join install on install.id = mine.install_id
    join app_version as mine_version on mine_version.id = ${run.app_version_id}
    cross join lateral (
      select d.run_id, d.build_id, run.app_version_id from deploy as d join run on run.id = d.run_id
      where d.install_id = mine.install_id and d.component = mine.component and d.id > mine.id
        and d.status in ('succeeded', 'skipped')
      order by d.id desc limit 1
    ) as since
    join app_version as newer_version on newer_version.id = since.app_version_id
    where mine.run_id = ${run.id} and mine.component = any(${components})
      and (since.build_id <> mine.build_id or since.app_version_id <> ${run.app_version_id})
    order by mine.component limit 1`.execute(tx.db)
  const [found] = rows
  if (!found) return
  const { component, install, version, build, by, newer } = found
  const [what, older] =
    newer === version
      ? [`another build of ${component} (${found.newer_build})`, `${build} back`]
      : [`${component} of version ${newer}`, `version ${version} back`]
  const message = `run ${by} has brought ${what} since; this run would bring ${older}`
  throw new ApiFailure('wrong_state', message, {
    remedy: `Deploy the newest: \`tenon deploy ${install} ${component}\`; or go back on purpose: \`tenon deploys rollback ${install}\`.`,
  })
}
