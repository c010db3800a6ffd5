import { json } from '@tenon/protocol'
import { z } from 'zod'

export const manifestConfig = z.looseObject({
  namespace: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be a namespace')
    .default('default'),
  manifest: z.string().max(4_194_304).default(''),
  kustomize: z
    .looseObject({
      path: z.string().max(1000),
      patches: z.array(json).max(200).default([]),
      enable_helm: z.boolean().default(false),
      load_restrictor: z.string().default(''),
    })
    .exactOptional(),
})
export type ManifestConfig = z.infer<typeof manifestConfig>

/** A manifest that lies elsewhere: its build fetches it, so that what is deployed is what was built. */
export function addressOf(manifest: string | undefined): string | undefined {
  const text = manifest?.trim() ?? ''
  return /^https?:\/\/\S+$/.test(text) ? text : undefined
}
