import { AgentError } from '../ground/errors.ts'
import type { InstallStore } from './install-store.ts'

const INSTALL = 'install'

/** A store is of one install for good: an export restored for another one would mix two customers' state. */
export async function bindStore(store: InstallStore, installId: string | null): Promise<void> {
  if (installId === null) return
  const bytes = await store.get('meta', INSTALL)
  if (!bytes) {
    await store.put('meta', INSTALL, new TextEncoder().encode(installId))
    return
  }
  const bound = new TextDecoder().decode(bytes)
  if (bound === installId) return
  throw new AgentError(
    'other_install',
    `The install store in this folder is of install ${bound}, but the agent enrolled for ${installId}.`,
    `Restore an export of ${installId} into an empty folder, or enrol with a join token of ${bound}.`,
  )
}
