import type { ComponentJobConfig } from '@tenon/protocol'
import type { Json } from '@tenon/core'
import type { z } from 'zod'
import { asPluginError, PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import type { Masker } from './masking.ts'
import { renderOperation } from './render.ts'

/** One operation on a component, with its configuration rendered, and a log that shows no secret. */
export interface Work<C> extends OperationContext {
  config: ComponentJobConfig
  /** The type's own configuration, rendered and checked. */
  component: C
  overrides: { [key: string]: Json }
  health: ComponentJobConfig['health']
  masker: Masker
  /** The component's name. */
  name: string
}

export type Perform = (context: OperationContext) => Promise<OperationResult>

/**
 * Renders the configuration, does the work, and takes every secret that was used out of what comes back: message,
 * data and errors alike. `only`: the fields that the work needs, where others may not be renderable any more.
 */
export function componentOperation<C>(
  schema: z.ZodType<C>,
  work: (work: Work<C>) => Promise<OperationResult>,
  only?: readonly string[],
): Perform {
  return async (context) => {
    const { masker, config, component, overrides, health } = await renderOperation(context, only)
    const parsed = schema.safeParse(component)
    if (!parsed.success) throw wrongConfig(parsed.error, config)
    const log = (line: string) => context.log(masker.text(line))
    const name = context.operation.component ?? config.type
    const job = { ...context, log, config, component: parsed.data, overrides, health, masker, name }
    try {
      return masked(masker, await work(job))
    } catch (error) {
      const known = asPluginError(error)
      throw new PluginError(known.code, masker.text(known.message), masker.text(known.remedy))
    }
  }
}

/** An output that holds a secret is sensitive, whatever its tool said of it. */
function masked(masker: Masker, result: OperationResult): OperationResult {
  const { outputs, ...rest } = result
  const shown = { ...rest, message: masker.text(result.message), data: masker.json(result.data) }
  if (outputs === undefined) return shown
  const checked = Object.entries(outputs).map(([name, output]) => {
    const holds = output.value !== undefined && masker.holds(output.value)
    return [name, holds ? { ...output, sensitive: true } : output] as const
  })
  return { ...shown, outputs: Object.fromEntries(checked) }
}

function wrongConfig(error: z.ZodError, config: ComponentJobConfig): PluginError {
  const issues = error.issues.slice(0, 5).map((issue) => `${issue.path.join('.') || 'it'}: ${issue.message}`)
  const message = `The configuration of the ${config.type} is wrong: ${issues.join('; ')}.`
  return new PluginError('config_invalid', message, 'Correct the named fields of the component.')
}
