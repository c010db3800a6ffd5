import { json } from '@tenon/protocol'
import { z } from 'zod'

const variables = z.record(z.string().max(256), json)

export const terraformConfig = z.looseObject({
  terraform_version: z.string().max(64).default(''),
  vars: variables.default({}),
  env_vars: z.record(z.string().max(256), z.union([z.string(), z.number(), z.boolean()])).default({}),
  var_file: z
    .array(z.looseObject({ contents: z.string().max(1_048_576) }))
    .max(100)
    .default([]),
})
export type TerraformConfig = z.infer<typeof terraformConfig>
