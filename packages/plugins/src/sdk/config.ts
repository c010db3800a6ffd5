import type { ManifestOperation } from '@tenon/core'
import type { z } from 'zod'
import { PluginError } from './errors.ts'

/** The operation's configuration in the plugin's own form. */
export function readConfig<T>(operation: ManifestOperation, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse(operation.config)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'config'}: ${issue.message}`)
  const message = `The configuration of ${operation.operation} by ${operation.plugin.name} is wrong: ${issues.slice(0, 5).join('; ')}.`
  throw new PluginError('config_invalid', message, 'Correct the named fields of the component.')
}
