import { z } from 'zod'

/**
 * A policy's contents: YAML or JSON, a list of rules. `deny` or `warn` is a CEL expression that is true where the
 * rule speaks; `message` one that gives text. With `each`, a CEL list, the rule is asked once per element, as `it`.
 */
const policyRule = z
  .strictObject({
    deny: z.string().max(10_000).optional(),
    warn: z.string().max(10_000).optional(),
    message: z.string().max(10_000).optional(),
    each: z.string().max(10_000).optional(),
  })
  .refine(({ deny, warn }) => (deny === undefined) !== (warn === undefined), 'needs one of deny and warn')
export const policyRules = z.array(policyRule).max(200)
export type PolicyRule = z.infer<typeof policyRule>

/** What a rule's expressions may name, besides `it` where there is an `each`. */
export const POLICY_VARIABLES = ['plan', 'resources', 'images', 'component'] as const

/** How large an expression and what it makes may be. */
export const CEL_LIMITS = {
  maxAstNodes: 2000,
  maxDepth: 60,
  maxListElements: 500,
  maxMapEntries: 500,
  maxCallArguments: 16,
}
