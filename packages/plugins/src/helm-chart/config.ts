import { json } from '@tenon/protocol'
import { z } from 'zod'

export const helmConfig = z.looseObject({
  /** The release's name too, as existing configurations have it. */
  chart_name: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9.-]{0,51}[a-z0-9])?$/, 'must be a release name of at most 53 characters'),
  namespace: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be a namespace')
    .default('default'),
  storage_driver: z.enum(['secret', 'secrets', 'configmap', 'configmaps', '']).default('secret'),
  take_ownership: z.boolean().default(false),
  values: z.record(z.string(), json).default({}),
  values_file: z
    .array(
      z.looseObject({
        contents: z.string().max(1_048_576).exactOptional(),
        path: z.string().exactOptional(),
      }),
    )
    .max(100)
    .default([]),
})
export type HelmConfig = z.infer<typeof helmConfig>
