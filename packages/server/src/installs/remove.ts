import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { byCaller, type Caller } from '../people/actor.ts'
import { createRun } from '../runs/create.ts'
import { transact } from '../store/transaction.ts'
import type { FoundInstall } from './views.ts'

/** Everything of it goes, the sandbox last. */
export async function deprovisionInstall(
  context: Context,
  install: FoundInstall,
  caller: Caller,
): Promise<string> {
  if (install.status === 'deprovisioned')
    throw new ApiFailure('wrong_state', `install ${install.name} is already deprovisioned`)
  return transact(context, (tx) =>
    createRun(context, tx, { install, decide: () => ({ kind: 'deprovision' }), by: byCaller(caller) }),
  )
}

/** These components go, or all; what they stood on stays. */
export async function tearDown(
  context: Context,
  install: FoundInstall,
  named: string[] | undefined,
  caller: Caller,
): Promise<string> {
  const there = await context.db
    .selectFrom('install_component')
    .select('component')
    .where('install_id', '=', install.id)
    .execute()
  const names = there.map((row) => row.component)
  const missing = (named ?? []).filter((name) => !names.includes(name))
  if (missing.length > 0)
    throw new ApiFailure('not_found', `not on install ${install.name}: ${missing.join(', ')}`, {
      remedy: `There is: ${names.join(', ') || 'nothing'}.`,
    })
  const decide = () => ({ kind: 'teardown' as const, components: named ?? names })
  return transact(context, (tx) => createRun(context, tx, { install, decide, by: byCaller(caller) }))
}
