import { Budget, type TemplateLimits } from './budget.ts'
import { TemplateError } from './errors.ts'
import { Evaluator, type Program } from './evaluate/evaluator.ts'
import type { MissingKey } from './evaluate/fields.ts'
import type { Functions } from './functions/functions.ts'
import { ALL_FUNCTIONS } from './functions/registry.ts'
import { parseTrees } from './syntax/parser.ts'
import { decodeText, encodeText, isValidUtf8, toUint8Array } from './values/bytes.ts'

export { Budget, DEFAULT_LIMITS, type TemplateLimits } from './budget.ts'
export { CallError, TemplateError, type TemplateErrorCode } from './errors.ts'
export type { MissingKey } from './evaluate/fields.ts'
export type { Functions, GoFunction } from './functions/functions.ts'
export { ALL_FUNCTIONS } from './functions/registry.ts'
export { textFunction } from './functions/text-function.ts'
export { EACH, templateReferences, type TemplateReferences } from './references.ts'
export { satisfies } from './semver/constraint.ts'
export { compareVersions, parseVersion, type SemVer } from './semver/version.ts'
export { isMissing, type Value } from './values/values.ts'

/** A parsed template. It holds no state of a rendering and may be rendered any number of times. */
export interface Template extends Program {
  readonly functions: Functions
}

export interface ParseOptions {
  /** Names the template in messages, and is how it may call itself. */
  name?: string
  /** Functions besides Go's and Sprig's; one of the same name takes the place of theirs. */
  functions?: Functions
}

export interface RenderOptions {
  missingKey?: MissingKey
  limits?: Partial<TemplateLimits>
  /** What several renderings share and spend together; `limits` then does not count. */
  budget?: Budget
  /** Replaces functions that the template was parsed with. */
  functions?: Functions
}

/** Parses Go `text/template` with Sprig. Throws a TemplateError with the code `parse`. */
export function parseTemplate(text: string, { name = 'template', functions }: ParseOptions = {}): Template {
  const known = functions ? { ...ALL_FUNCTIONS, ...functions } : ALL_FUNCTIONS
  const bytes = encodeText(text)
  const byteName = encodeText(name)
  const trees = parseTrees(bytes, byteName, (word) => Object.hasOwn(known, word))
  return { text: bytes, name: byteName, trees, functions: known }
}

/**
 * Renders over JSON data: every number is a float64, as Go decodes JSON. Gives text, or bytes when the output
 * is not UTF-8. Throws a TemplateError with the code `exec`, or `limit` when one is reached. The data stays as it is.
 */
export function renderTemplate(
  template: Template,
  data: unknown,
  { missingKey = 'default', limits, budget, functions }: RenderOptions = {},
): string | Uint8Array {
  const known = functions ? { ...template.functions, ...functions } : template.functions
  const evaluator = new Evaluator(template, known, missingKey, budget ?? new Budget(limits))
  const bytes = evaluator.run(data)
  return isValidUtf8(bytes) ? decodeText(bytes) : toUint8Array(bytes)
}

/** Renders what must be text; output of any other bytes is a TemplateError with the code `not_text`. */
export function renderText(template: Template, data: unknown, options?: RenderOptions): string {
  const output = renderTemplate(template, data, options)
  if (typeof output === 'string') return output
  throw new TemplateError('the output is not UTF-8 text', { code: 'not_text', line: 1, column: 1 })
}
