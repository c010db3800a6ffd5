import { Budget, type TemplateLimits } from './budget.ts'
import { decodeText, encodeText, isValidUtf8, toUint8Array } from './values/bytes.ts'
import { TemplateError } from './errors.ts'
import { Evaluator, type MissingKey, type Program } from './evaluate/evaluator.ts'
import type { Functions } from './functions/functions.ts'
import { parseTrees } from './syntax/parser.ts'
import { ALL_FUNCTIONS } from './functions/registry.ts'

export { Budget, DEFAULT_LIMITS as DEFAULT_TEMPLATE_LIMITS, type TemplateLimits } from './budget.ts'
export { CallError, TemplateError, type TemplateErrorClass } from './errors.ts'
export type { MissingKey } from './evaluate/evaluator.ts'
export { ALL_FUNCTIONS } from './functions/registry.ts'
export type { Functions as TemplateFunctions, GoFunction } from './functions/functions.ts'
export { EACH, neededReferences, templateReferences } from './references.ts'
export { satisfies } from './semver/constraint.ts'
export { compareVersions, parseVersion, type SemVer } from './semver/version.ts'
export { GoList, GoMap, type Value } from './values/values.ts'
export { textFunction } from './functions/text-function.ts'

/** A parsed template. It holds no state of a rendering and may be rendered any number of times. */
export interface Template extends Program {
  readonly functions: Functions
}

export interface ParseTemplateOptions {
  /** Names the template in messages, and is how it may call itself. */
  name?: string
  /** Functions besides Go's and Sprig's. */
  functions?: Functions
}

export interface RenderTemplateOptions {
  missingKey?: MissingKey
  limits?: Partial<TemplateLimits>
  /** What several renderings share and spend together; `limits` then does not count. */
  budget?: Budget
  /** Replaces functions that the template was parsed with. */
  functions?: Functions
}

/** Parses Go `text/template` with Sprig. Throws a TemplateError of class `parse`. */
export function parseTemplate(
  text: string,
  { name = 'template', functions }: ParseTemplateOptions = {},
): Template {
  const known = functions ? { ...ALL_FUNCTIONS, ...functions } : ALL_FUNCTIONS
  const bytes = encodeText(text)
  const byteName = encodeText(name)
  const trees = parseTrees(bytes, byteName, (word) => Object.hasOwn(known, word))
  return { text: bytes, name: byteName, trees, functions: known }
}

/**
 * Renders over JSON data: every number is a float64, as Go decodes JSON. Gives text, or bytes when the output
 * is not UTF-8. Throws a TemplateError of class `exec`, also when a limit is reached. The data stays as it is.
 */
export function renderTemplate(
  template: Template,
  data: unknown,
  { missingKey = 'default', limits, budget, functions }: RenderTemplateOptions = {},
): string | Uint8Array {
  const known = functions ? { ...template.functions, ...functions } : template.functions
  const evaluator = new Evaluator(template, known, missingKey, budget ?? new Budget(limits))
  const bytes = evaluator.run(data)
  return isValidUtf8(bytes) ? decodeText(bytes) : toUint8Array(bytes)
}

/** Renders what must be text. */
export function renderText(template: Template, data: unknown, options?: RenderTemplateOptions): string {
  const output = renderTemplate(template, data, options)
  if (typeof output === 'string') return output
  throw new TemplateError('the output is not UTF-8 text', { class: 'exec', line: 1, column: 1 })
}
