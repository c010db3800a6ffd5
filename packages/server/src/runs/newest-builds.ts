import { anyOf } from '../store/statements.ts'
import type { Tx } from '../store/transaction.ts'

/** The newest build that succeeded of each (`action:NAME` for actions), or the one that is named for it. */
export function newestBuilds(
  tx: Tx,
  appId: string,
  components: string[],
  named: { [component: string]: string } = {},
) {
  const given = Object.keys(named).filter((component) => components.includes(component))
  return tx.db
    .selectFrom('build')
    .distinctOn('component')
    .select(['id', 'component', 'artifact_repository', 'artifact_digest'])
    .where('app_id', '=', appId)
    .where('component', '=', anyOf(components))
    .where('status', '=', 'succeeded')
    .$if(given.length > 0, (q) =>
      q.where((eb) =>
        eb.or([
          eb.not(eb('component', '=', anyOf(given))),
          eb('id', '=', anyOf(given.map((name) => named[name]!))),
        ]),
      ),
    )
    .orderBy('component')
    .orderBy('id', 'desc')
    .execute()
}
