import { sql } from 'kysely'
import type { Context } from './context.ts'
import type { Sessions } from './channel/sessions.ts'
import { activateNext, advance, lockRun } from './runs/advance.ts'
import { lapseOverdueJobs } from './jobs/lapse.ts'
import { writeRefusals } from './audit/refusals.ts'
import { isDatabaseAway } from './store/database.ts'
import { expireLeases } from './jobs/leases.ts'
import { transact } from './store/transaction.ts'
import { checkDrift } from './schedules/drift.ts'
import { startDueActions } from './schedules/due-actions.ts'
import { createProcessWatch } from './agents/processes.ts'
import { sealServerChain } from './audit/seal.ts'
import { createSignatureWatch } from './artifacts/signatures.ts'

/** What each server process does again and again. Any number of processes may do it at once. */
export function startLoops(context: Context, sessions: Sessions): { stop(): Promise<void> } {
  const watchSeconds = Math.max(0.2, Math.min(2, context.config.leaseSeconds / 8))
  const loops = [
    every(context, 'leases', 1_000 * Math.min(1, watchSeconds), () => sessions.flush()),
    every(context, 'expiry', 1_000 * watchSeconds, () => expireLeases(context, watchSeconds)),
    every(context, 'holds', 1_000 * Math.min(5, watchSeconds), () => lapseOverdueJobs(context)),
    every(context, 'audit', 250, () => sealServerChain(context)),
    every(context, 'poll', 3_000, () => poll(context, sessions)),
    every(context, 'retries', 1_000, () => retryDueSteps(context)),
    every(context, 'drift', 10_000, () => checkDrift(context)),
    every(context, 'actions', 5_000, () => startDueActions(context)),
    every(context, 'signatures', 15_000, createSignatureWatch(context)),
    every(context, 'refusals', 5_000, () => writeRefusals(context)),
    every(context, 'processes', 5_000, createProcessWatch(context, sessions)),
  ]
  return { stop: async () => void (await Promise.all(loops.map((loop) => loop.stop()))) }
}

/** Hints may be lost; this finds everything that waits for somebody connected here. */
async function poll(context: Context, sessions: Sessions): Promise<void> {
  await context.keys.reload()
  sessions.announceKeys()
  await nudgeSessions(context, sessions)
  await startWaitingRuns(context)
}

/** Agents that have yet to end what was canceled. What is held is in no index of `job`, which is long. */
export const CANCELED = `
    select agent_id as id from job where status in ('assigned', 'running') and cancel_requested_at is not null
    union
    select job.agent_id from job_hold join job on job.id = job_hold.job_id where job.cancel_requested_at is not null`

async function nudgeSessions(context: Context, sessions: Sessions): Promise<void> {
  const pools = sessions.pools()
  if (pools.size === 0) return
  const { db } = context
  const waiting = await db
    .selectFrom('job')
    .select('pool')
    .distinct()
    .where('status', '=', 'queued')
    .execute()
  for (const { pool } of waiting) for (const session of pools.get(pool) ?? []) session.dispatcher.nudge()
  const { rows } = await sql<{ id: string }>`
    ${sql.raw(CANCELED)}
    union
    select agent.id from install_secret join agent on agent.install_id = install_secret.install_id
      where install_secret.delivered_at is null
    union
    select id from agent where id = any(${sessions.agentIds()}::text[])
      and (status <> 'enrolled' or process_id <> ${context.processId})`.execute(db)
  for (const { id } of rows) sessions.control(id)
}

async function startWaitingRuns(context: Context): Promise<void> {
  const stuck = await context.db
    .selectFrom('run as queued')
    .select('queued.install_id')
    .distinct()
    .where('queued.status', '=', 'queued')
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('run as active')
            .select('active.id')
            .whereRef('active.install_id', '=', 'queued.install_id')
            .where('active.status', '=', 'active'),
        ),
      ),
    )
    .execute()
  for (const { install_id } of stuck) await transact(context, (tx) => activateNext(context, tx, install_id))
}

/** Steps that were to be tried again at some time: their runs go on. */
async function retryDueSteps(context: Context): Promise<void> {
  const at = new Date(context.now()).toISOString()
  const due = await context.db
    .selectFrom('step')
    .select('run_id')
    .distinct()
    .where('status', '=', 'pending')
    .where('not_before', '<=', at)
    .execute()
  for (const { run_id } of due) {
    await transact(context, async (tx) => {
      const run = await lockRun(tx, run_id)
      // From here on they wait for their turn alone, which may be for a person: nobody needs to look again.
      tx.write(sql`
        update step set not_before = null where run_id = ${run_id} and status = 'pending' and not_before <= ${at}`)
      if (run) await advance(context, tx, run)
    })
  }
}

function every(
  context: Context,
  name: string,
  ms: number,
  work: () => Promise<unknown>,
): { stop(): Promise<void> } {
  let timer: NodeJS.Timeout | undefined
  let running: Promise<unknown> = Promise.resolve()
  let stopped = false
  const turn = () => {
    running = work()
      .catch((error: unknown) =>
        context.log[isDatabaseAway(error) ? 'warn' : 'error'](
          { err: error, loop: name },
          'a loop had to stop early; it comes again',
        ),
      )
      .finally(() => {
        if (!stopped) timer = setTimeout(turn, ms)
      })
  }
  turn()
  return {
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
