import { AgentError } from '../ground/errors.ts'
import type { StoreReader } from '../store/install-store.ts'
import type { SecretEntry } from './owner-access.ts'

export async function listSecrets(store: StoreReader): Promise<SecretEntry[]> {
  const entries: SecretEntry[] = []
  for (const { name } of await store.list('secret')) {
    const newest = (await store.history('secret', name)).at(-1)
    if (newest) entries.push({ name, version: newest.version, setAt: newest.at })
  }
  return entries
}

export function noInstallStore(role: string): AgentError {
  return new AgentError(
    'no_install_store',
    `This is a ${role} agent: it has no install, so it keeps no secrets.`,
    "Name the folder of the install's own agent with --dir.",
  )
}

export function noSuchJob(jobId: string): AgentError {
  return new AgentError(
    'no_such_job',
    `This agent holds no job ${jobId}.`,
    'See the jobs it holds with `status`; a job that ended is no longer listed.',
  )
}
