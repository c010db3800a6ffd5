import { createHash } from 'node:crypto'
import { z } from 'zod'
import { kubeObject, type KubeObject } from '../kubernetes/objects.ts'
import { isPluginError, PluginError } from '../sdk/errors.ts'
import type { Work } from './operation.ts'

/** A plan for Kubernetes, as the install store keeps it: all that will be there, and what it was made for. */
const savedObjects = z.strictObject({
  version: z.literal(1),
  /** Digest of what was there when it was made. */
  base: z.string(),
  objects: z.array(kubeObject),
  hooks: z.array(kubeObject).default([]),
  crds: z.array(kubeObject).default([]),
})
export interface SavedObjects {
  base: string
  objects: KubeObject[]
  hooks: KubeObject[]
  crds: KubeObject[]
}

export async function keepPlan<P extends { base: string }>(work: Work<unknown>, plan: P): Promise<string> {
  return work.api.putPlan(work.name, Buffer.from(JSON.stringify({ version: 1, ...plan })))
}

/** The plan that the deploy must carry out as it is; undefined when none was approved. */
export async function approvedPlan(
  work: Work<unknown>,
  base: () => Promise<string>,
): Promise<SavedObjects | undefined> {
  return (await approvedContent(work, savedObjects, base)) as unknown as SavedObjects | undefined
}

/** The same of a plan in any form that says what it was made for. */
export async function approvedContent<T extends { base: string }>(
  work: Work<unknown>,
  schema: z.ZodType<T>,
  base: () => Promise<string>,
): Promise<T | undefined> {
  const digest = work.operation.approvedPlan
  if (digest === null) return undefined
  const bytes = await work.api.plan(digest).catch((error: unknown) => {
    if (isPluginError(error) && error.code === 'job_api_refused') throw stale(digest, error.message)
    throw error
  })
  const plan = schema.safeParse(JSON.parse(Buffer.from(bytes).toString('utf8'))).data
  // What is ignored of an approved plan would be done otherwise than it was approved.
  if (!plan) throw stale(digest, 'another version of the plugin made it.')
  if (plan.base !== (await base())) throw stale(digest, 'what is deployed has changed since.')
  return plan
}

export function baseOf(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex')
}

export function stale(digest: string, why: string): PluginError {
  const message = `The approved plan ${digest} cannot be carried out any more: ${why}`
  return new PluginError('plan_stale', message, 'Plan again and approve the new plan.')
}
