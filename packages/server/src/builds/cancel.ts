import type { Context } from '../context.ts'
import { ApiFailure } from '../errors.ts'
import { cancelLocked } from '../jobs/control.ts'
import type { Caller } from '../people/actor.ts'
import { lockJob } from '../store/locks.ts'
import { transact } from '../store/transaction.ts'
import { buildView } from './views.ts'

export async function cancelBuild(context: Context, id: string, caller: Caller): Promise<void> {
  const build = await buildView(context.db, id)
  if (build.finishedAt) throw new ApiFailure('wrong_state', `this build has already ${build.status}`)
  await transact(context, async (tx) => {
    const job = build.jobId ? await lockJob(tx, build.jobId) : undefined
    if (job) await cancelLocked(context, tx, job, caller)
  })
}
