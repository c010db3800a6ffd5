import { accountFor } from './account.ts'
import { provideBinaries } from './binaries.ts'
import type { Clock } from './clock.ts'
import type { Cluster, Log } from './cluster.ts'
import { giveTo, judgeFolder, readFolder, siblingsOf } from './data-folder.ts'
import { initialise } from './initialise.ts'
import { readPassword, storePassword } from './password.ts'

/** Makes the data folder fit to start from, or says why it is not. Needs the supervisor's lock. */
export async function openCluster(options: {
  dataDir: string
  password: string | undefined
  durable: boolean
  clock: Clock
  log: Log
}): Promise<Cluster> {
  const { dataDir, durable, clock, log } = options
  const siblings = siblingsOf(dataDir)
  const facts = readFolder(dataDir)
  const account = accountFor(facts.version === undefined ? undefined : dataDir)
  const binaries = provideBinaries(account)
  const major = binaries.version.split('.')[0] ?? ''
  if (judgeFolder(dataDir, facts, major) === 'cluster') {
    giveTo(dataDir, account)
    const password = options.password ?? readPassword(siblings.password)
    return { dataDir, siblings, account, binaries, password, durable, clock, log }
  }
  const password = storePassword(siblings.password, options.password)
  const cluster = { dataDir, siblings, account, binaries, password, durable, clock, log }
  await initialise(cluster)
  return cluster
}
