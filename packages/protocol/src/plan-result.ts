import { z } from 'zod'
import { clippedText, digest, json } from './scalars.ts'

/** One thing that a deploy would change. Sensitive values are replaced before they get here. */
export const planChange = z.object({
  action: z.enum(['create', 'update', 'replace', 'delete', 'read']),
  /** What it is, in the words of its tool: `aws_s3_bucket.data`, `Deployment web/api`. */
  address: clippedText(500),
  /** Only what differs; absent where the tool does not say, or where it is too large. */
  before: json.exactOptional(),
  after: json.exactOptional(),
})

export const policyFinding = z.object({
  policy: z.string().max(128),
  outcome: z.enum(['deny', 'warn']),
  message: clippedText(1000),
})

/** `data.plan` in the result of a `plan` operation. */
export const planResult = z.object({
  /** The saved plan in the install store, which the deploy must apply; null where the tool has none. */
  digest: digest.nullable(),
  hasChanges: z.boolean(),
  /** Whether what runs now is well; null where nobody can tell. */
  healthy: z.boolean().nullable(),
  counts: z.object({ create: z.int(), update: z.int(), delete: z.int() }),
  /** At most 200; `isCut` says that there are more. */
  changes: z.array(planChange).max(200),
  isCut: z.boolean(),
  findings: z.array(policyFinding).max(200),
})
export type PlanResult = z.infer<typeof planResult>

/** What a plan's job found, for people and for the deploy that applies it; undefined when it says nothing of the kind. */
export function planOf(result: { [key: string]: unknown } | undefined): PlanResult | undefined {
  return planResult.safeParse(result?.['plan']).data
}
