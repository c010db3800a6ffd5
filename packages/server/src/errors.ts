import { API_ERRORS, type ApiErrorCode } from '@tenon/protocol'

/** An answer to a caller that went wrong: what happened, and what to do next. */
export class ApiFailure extends Error {
  readonly code: ApiErrorCode
  readonly remedy: string | undefined
  readonly problems: { path: string; message: string }[] | undefined

  constructor(
    code: ApiErrorCode,
    message: string,
    more: { remedy?: string; problems?: { path: string; message: string }[]; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause })
    this.name = 'ApiFailure'
    this.code = code
    this.remedy = more.remedy
    this.problems = more.problems
  }

  get status(): number {
    return API_ERRORS[this.code]
  }
}

/** The server could not start; printed as it is. */
export class StartError extends Error {
  readonly code: string
  readonly remedy: string

  constructor(code: string, message: string, remedy: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'StartError'
    this.code = code
    this.remedy = remedy
  }
}

export function notFound(what: keyof typeof LISTS, ref: string): ApiFailure {
  return new ApiFailure('not_found', `there is no ${what} ${ref}`, {
    remedy: `List them: ${LISTS[what]}.`,
  })
}

const LISTS = {
  app: '`tenon apps list`',
  artifact: '`tenon artifacts list`',
  build: '`tenon builds list`',
  install: '`tenon installs list`',
  deploy: '`tenon deploys list INSTALL`',
  run: '`tenon runs list`',
  job: '`tenon jobs list`',
  agent: '`tenon agent list`',
  token: '`tenon tokens list`',
  'audit chain': '`tenon audit list`',
} as const
