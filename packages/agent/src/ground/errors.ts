/** Every way in which the agent itself can fail. A job that failed is a result, not one of these. */
export const AGENT_ERROR_CODES = [
  'bad_config',
  'folder_in_use',
  'identity_broken',
  'not_enrolled',
  'server_not_proven',
  'server_unreachable',
  'enrol_refused',
  'journal_failed',
  'socket_folder_unsafe',
  'registry_unavailable',
  'server_away',
  'credential_refused',
  'agent_busy',
  'admin_failed',
  'no_such_job',
  'no_install_store',
  'other_install',
  'folder_not_new',
  'output_refused',
  'bad_value',
] as const
export type AgentErrorCode = (typeof AGENT_ERROR_CODES)[number]

export class AgentError extends Error {
  readonly code: AgentErrorCode
  /** What to do next, one sentence. */
  readonly remedy: string

  constructor(code: AgentErrorCode, message: string, remedy: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'AgentError'
    this.code = code
    this.remedy = remedy
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
