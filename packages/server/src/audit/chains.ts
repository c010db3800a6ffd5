import { SERVER_CHAIN } from '@tenon/core'

/** Facts of an install are in its own chain, all others in the server's. */
export function chainOf(installId: string | null): string {
  return installId ?? SERVER_CHAIN
}

/** Whether a job is an agent's business: one that only names another install's job is noted in its own chain. */
export function concerns(
  job: { agent_id: string | null; install_id: string | null },
  agent: { id: string; installId: string | null },
): boolean {
  return job.agent_id === agent.id || (agent.installId !== null && job.install_id === agent.installId)
}
