import { z } from 'zod'

/** Every code the API answers with; the message says what happened, the remedy what to do next. */
export const API_ERRORS = {
  bad_request: 400,
  bad_app: 400,
  unauthorized: 401,
  token_expired: 401,
  forbidden: 403,
  not_found: 404,
  unknown_route: 404,
  method_not_allowed: 405,
  conflict: 409,
  name_taken: 409,
  wrong_state: 409,
  /** Others stand on what would go. */
  has_dependents: 409,
  no_build: 409,
  no_agent: 409,
  /** Nobody gave up the agent that a new one would replace. */
  agent_in_place: 409,
  /** A deploy would run past the plan, the approval or the action before it. */
  not_approved: 409,
  token_used: 409,
  too_large: 413,
  unsupported_media_type: 415,
  rate_limited: 429,
  internal: 500,
  unavailable: 503,
} as const
export type ApiErrorCode = keyof typeof API_ERRORS

export const apiError = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    remedy: z.string().optional(),
    requestId: z.string(),
    /** Where in the input each problem is. */
    problems: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  }),
})
export type ApiErrorBody = z.infer<typeof apiError>
