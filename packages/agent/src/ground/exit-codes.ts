import { AgentError, type AgentErrorCode } from './errors.ts'

/** The only place that says what an exit code of the agent means. */
export const EXIT = {
  /** Asked to stop; running jobs go on and the next start picks them up. A command: it is done. */
  stopped: 0,
  /** Anything not named below; a supervisor may start the agent again. */
  other: 1,
  /** Configuration, join token, folder or command is not usable as it is; trying again changes nothing. */
  badConfig: 2,
  /** A newer process with the same identity took over; must not be restarted. */
  superseded: 3,
  /** The server put this identity out of use: quarantined, revoked or unknown. */
  evicted: 4,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

const BAD_CONFIG: readonly AgentErrorCode[] = [
  'bad_config',
  'folder_in_use',
  'identity_broken',
  'not_enrolled',
  'server_not_proven',
  'enrol_refused',
  'no_such_job',
  'no_install_store',
  'other_install',
  'folder_not_new',
  'output_refused',
  'bad_value',
]

export function exitCodeOf(error: unknown): ExitCode {
  return error instanceof AgentError && BAD_CONFIG.includes(error.code) ? EXIT.badConfig : EXIT.other
}
