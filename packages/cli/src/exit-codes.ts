import type { ApiError } from '@tenon/protocol'

/** Every way the program can end. `tenon help exit-codes` prints this table. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  denied: 3,
  notFound: 4,
  conflict: 5,
  unavailable: 6,
  internal: 7,
  interrupted: 130,
} as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

const MEANINGS: Record<ExitCode, string> = {
  0: 'ok',
  1: 'what was asked for failed: a run, build or job failed, an audit chain does not verify, a check of the doctor fails',
  2: 'usage: an unknown command or option, a bad value, a mistake in the app config',
  3: 'not signed in, the token has expired or was revoked, or its role does not allow this',
  4: 'not found: no such app, build, install, run, job, agent, token or context',
  5: 'conflict: the name is taken, or the thing is in a state that does not allow this',
  6: 'the server cannot be reached, is unavailable, or asks to slow down',
  7: 'internal: a mistake in the server or in this program',
  130: 'interrupted with Ctrl-C; what was being followed goes on',
}

export function exitCodesText(): string {
  const lines = Object.entries(MEANINGS).map(([code, meaning]) => `  ${code.padStart(3)}  ${meaning}`)
  return `Exit codes\n\n${lines.join('\n')}\n\n\`tenon server\` and \`tenon agent\` pass on the code of the program they start.\n`
}

const BY_API_CODE: Record<string, ExitCode> = {
  unauthorized: EXIT.denied,
  token_expired: EXIT.denied,
  forbidden: EXIT.denied,
  not_found: EXIT.notFound,
  unknown_route: EXIT.notFound,
  bad_request: EXIT.usage,
  bad_app: EXIT.usage,
  too_large: EXIT.usage,
  unsupported_media_type: EXIT.usage,
  rate_limited: EXIT.unavailable,
  unavailable: EXIT.unavailable,
  unreachable: EXIT.unavailable,
  bad_answer: EXIT.unavailable,
}

export function exitCodeOfApi(error: ApiError): ExitCode {
  return BY_API_CODE[error.code] ?? (error.status === 409 ? EXIT.conflict : EXIT.internal)
}
