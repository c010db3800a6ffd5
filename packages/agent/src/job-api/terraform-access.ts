import type { StateLock } from '@tenon/protocol'
import { sha256 } from '../ground/crypto.ts'
import type { JobLife } from '../jobs/life.ts'
import type { JournalEntry } from '../journal/journal-entry.ts'
import type { Journal } from '../journal/journal.ts'
import type { InstallStore } from '../store/install-store.ts'
import type { TerraformAccess } from './route.ts'

export interface TerraformAccessContext {
  journal: Journal<JournalEntry>
  store: InstallStore
  /** The live job that holds a component's lock. */
  stateLockHolder: (component: string) => JobLife | undefined
}

/** Terraform's state and plans for one job. The lock lies in the job's own record, so it ends with the job. */
export function createTerraformAccess(context: TerraformAccessContext, life: JobLife): TerraformAccess {
  const { journal, store, stateLockHolder } = context
  const setLock = (component: string, lock: StateLock | null) =>
    journal.append({ type: 'state.lock', ...life.id, component, lock })
  return {
    read: (component) => store.get('state', component),
    async write(component, state) {
      await store.put('state', component, state)
    },
    remove: (component) => store.remove('state', component),
    holder(component) {
      const holder = stateLockHolder(component)
      const lock = holder?.record.stateLocks.get(component)
      return holder && lock && { isThisJob: holder === life, jobId: holder.id.jobId, lock }
    },
    lock: (component, lock) => setLock(component, lock),
    unlock: (component) => setLock(component, null),
    async keepPlan(component, plan) {
      const digest = `sha256:${sha256(plan)}`
      if ((await findPlan(store, component, digest)) === undefined) await store.put('plan', component, plan)
      await journal.append({ type: 'plan', ...life.id, digest })
      return digest
    },
    hasSaved: (digest) => life.record.plans.has(digest),
    async plan(component, digest) {
      const version = await findPlan(store, component, digest)
      return version === undefined ? undefined : store.getVersion('plan', component, version)
    },
  }
}

async function findPlan(store: InstallStore, component: string, digest: string): Promise<number | undefined> {
  const versions = await store.history('plan', component)
  return versions.findLast((version) => version.digest === digest)?.version
}
