import { agentsToAddress } from './agents/attention.ts'
import { createProcessWatch } from './agents/processes.ts'
import { createSignatureWatch } from './artifacts/signatures.ts'
import { writeRefusals } from './audit/refusals.ts'
import { sealServerChain } from './audit/seal.ts'
import type { Sessions } from './channel/sessions.ts'
import type { Context } from './context.ts'
import { every } from './ground/timers.ts'
import { lapseOverdueJobs } from './jobs/lapse.ts'
import { expireLeases } from './jobs/leases.ts'
import { poolsWithJobs } from './jobs/queue.ts'
import { retryDueSteps, startWaitingRuns } from './runs/waiting.ts'
import { checkDrift } from './schedules/drift.ts'
import { startDueActions } from './schedules/due-actions.ts'

/** What each server process does again and again. Any number of processes may do it at once. */
export function startLoops(context: Context, sessions: Sessions): { stop(): Promise<void> } {
  const { log } = context
  const watchSeconds = Math.max(0.2, Math.min(2, context.config.leaseSeconds / 8))
  const loops = [
    every(log, 'leases', 1_000 * Math.min(1, watchSeconds), () => sessions.flush()),
    every(log, 'expiry', 1_000 * watchSeconds, () => expireLeases(context, watchSeconds)),
    every(log, 'holds', 1_000 * Math.min(5, watchSeconds), () => lapseOverdueJobs(context)),
    every(log, 'audit', 250, () => sealServerChain(context)),
    every(log, 'poll', 3_000, () => poll(context, sessions)),
    every(log, 'retries', 1_000, () => retryDueSteps(context)),
    every(log, 'drift', 10_000, () => checkDrift(context)),
    every(log, 'actions', 5_000, () => startDueActions(context)),
    every(log, 'signatures', 15_000, createSignatureWatch(context)),
    every(log, 'refusals', 5_000, () => writeRefusals(context)),
    every(log, 'processes', 5_000, createProcessWatch(context, sessions)),
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

async function nudgeSessions(context: Context, sessions: Sessions): Promise<void> {
  const pools = sessions.pools()
  if (pools.size === 0) return
  for (const pool of await poolsWithJobs(context.db))
    for (const session of pools.get(pool) ?? []) session.dispatcher.nudge()
  for (const id of await agentsToAddress(context, sessions.agentIds())) sessions.control(id)
}
