import { repository } from '@tenon/protocol'
import { z } from 'zod'

export const gitSource = z.object({
  kind: z.literal('git'),
  repo: z.string().min(1).max(1000),
  ref: z.string().max(255),
  directory: z.string().max(1000),
})
export type GitSource = z.infer<typeof gitSource>

const source = z.discriminatedUnion('kind', [z.object({ kind: z.literal('folder') }), gitSource])
export type BuildSource = z.infer<typeof source>

/** What the manifest of every build says, around the type's own configuration. */
export function buildConfig<T extends z.ZodType>(component: T) {
  return z.looseObject({
    component,
    repository,
    source: source.nullish().transform((value) => value ?? null),
    images: z.array(z.string()).default([]),
  })
}
