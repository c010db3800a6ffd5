import { installStates, type InstallStatus, type RunKind, type RunStatus } from '@tenon/core'
import { sql } from 'kysely'
import type { RunFollower } from '../ground/followers.ts'
import type { LockedRun } from '../store/locks.ts'
import type { Tx } from '../store/transaction.ts'

/** What becomes of an install by what becomes of its runs. */
export const followRuns: RunFollower = {
  started(tx, runs) {
    for (const { kind, install_id } of runs) {
      const to = statusDuring(kind)
      if (to) setStatus(tx, install_id, to)
    }
  },
  async ended(context, tx, ended, statuses) {
    const removed: LockedRun[] = []
    for (const { run, end } of ended) {
      const to = statusAfter(run.kind, end)
      if (!to || !installStates.can(statuses.get(run.install_id)!, to)) continue
      setStatus(tx, run.install_id, to)
      if (to === 'deprovisioned') removed.push(run)
    }
    if (removed.length === 0) return
    for (const follower of context.followers.installs) await follower.removed?.(context, tx, removed)
  },
  keepsSecrets: (tx, installId, keeps) =>
    tx.write(
      sql`update install set keeps_secrets = ${keeps} where id = ${installId} and keeps_secrets <> ${keeps}`,
    ),
}

function setStatus(tx: Tx, installId: string, status: InstallStatus): void {
  tx.write(tx.db.updateTable('install').set({ status }).where('id', '=', installId))
}

function statusDuring(kind: RunKind): InstallStatus | undefined {
  if (kind === 'provision') return 'provisioning'
  return kind === 'deprovision' ? 'deprovisioning' : undefined
}

function statusAfter(kind: RunKind, end: RunStatus): InstallStatus | undefined {
  if (kind === 'provision') return end === 'succeeded' ? 'active' : 'failed'
  if (kind === 'deprovision') return end === 'succeeded' ? 'deprovisioned' : 'failed'
  return undefined
}
