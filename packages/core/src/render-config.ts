import {
  ALL_FUNCTIONS,
  Budget,
  CallError,
  DEFAULT_LIMITS,
  EACH,
  isMissing,
  parseTemplate,
  renderText,
  TemplateError,
  templateReferences,
  type Functions,
  type GoFunction,
  type Template,
  type TemplateLimits,
} from '@tenon/go-template'
import { STATE_ROOTS } from './install-state.ts'
import type { Json } from './json.ts'

export interface RenderConfigOptions {
  /** Functions besides Go's and Sprig's. */
  functions?: Functions
  /** For the whole of the value together. */
  limits?: Partial<TemplateLimits>
}

export type ConfigRenderCode = 'missing_value' | 'bad_template' | 'too_large'

/** Why a configuration could not be read or rendered: where in it, and what to do. Go's words may quote a value. */
export class ConfigRenderError extends Error {
  override readonly name = 'ConfigRenderError'
  readonly code: ConfigRenderCode
  /** The keys that lead to the string. */
  readonly path: readonly (string | number)[]
  /** Place within the string, from 1. */
  readonly line: number
  readonly column: number
  /** What was missing, as the template names it without its root: `components.db.outputs.url`. */
  readonly reference: string | undefined
  readonly next: string

  constructor(
    code: ConfigRenderCode,
    message: string,
    at: { path: readonly (string | number)[]; line: number; column: number },
    more: { reference?: string | undefined; next: string; cause?: unknown },
  ) {
    super(message, { cause: more.cause })
    this.code = code
    this.path = at.path
    this.line = at.line
    this.column = at.column
    this.reference = more.reference
    this.next = more.next
  }
}

/**
 * Renders every string of a value that holds a template over the install's state (`installState`). What is no
 * template stays as it is, with its type; what is one becomes text, as Go's templates give text. A missing value
 * may be asked for (`if`, `default`, `dig`), but to print it, or to give it to a function that uses it, is an error.
 */
export function renderConfig<T extends Json>(value: T, state: Json, options: RenderConfigOptions = {}): T {
  const limits = { ...DEFAULT_LIMITS, ...options.limits }
  const renderer = new ConfigRenderer(state, options.functions ?? {}, limits)
  return mapStrings(value, [], limits.depth, (text, path) => renderer.text(text, path)) as T
}

/** Walks a value and replaces its strings that may hold an expression. */
export function mapStrings(
  value: Json,
  path: readonly (string | number)[],
  depth: number,
  replace: (text: string, path: readonly (string | number)[]) => string,
): Json {
  if (typeof value === 'string') return value.includes('{{') ? replace(value, path) : value
  if (typeof value !== 'object' || value === null) return value
  if (path.length > depth) {
    const next = 'make the configuration less deep'
    throw new ConfigRenderError(
      'too_large',
      `it nests deeper than ${depth}`,
      { path, line: 1, column: 1 },
      { next },
    )
  }
  if (Array.isArray(value)) return value.map((child, i) => mapStrings(child, [...path, i], depth, replace))
  const entries = Object.entries(value).map(
    ([key, child]) => [key, mapStrings(child, [...path, key], depth, replace)] as const,
  )
  return Object.fromEntries(entries)
}

/** Renders strings over one state, all within one budget. */
export class ConfigRenderer {
  readonly #state: Json
  readonly #functions: Functions
  readonly #strict: Functions
  readonly #limits: TemplateLimits
  readonly #budget: Budget
  #bytes = 0

  constructor(state: Json, functions: Functions, limits: TemplateLimits = DEFAULT_LIMITS) {
    this.#state = state
    this.#functions = functions
    this.#strict = { ...STRICT_FUNCTIONS, ...functions }
    this.#limits = limits
    this.#budget = new Budget(limits)
  }

  text(text: string, path: readonly (string | number)[]): string {
    try {
      const template = parseTemplate(text, { name: path.join('.') || 'template', functions: this.#functions })
      const output = this.#render(text, template, path)
      this.#bytes += output.length
      if (this.#bytes <= this.#limits.outputBytes) return output
    } catch (error) {
      if (error instanceof TemplateError) throw templateFailure(error, path)
      throw error
    }
    const next = 'make the configuration smaller'
    const message = `the rendered configuration has more than ${this.#limits.outputBytes} characters`
    throw new ConfigRenderError('too_large', message, { path, line: 1, column: 1 }, { next })
  }

  #render(text: string, template: Template, path: readonly (string | number)[]): string {
    try {
      return this.#run(template, this.#strict)
    } catch (error) {
      if (!(error instanceof TemplateError) || error.code === 'parse') throw error
      const ways = templateReferences(template).all.filter(isStateWay)
      const refused = error.cause instanceof MissingArgument
      // A null is a value: a function may have it, though it cannot be printed.
      const gaps = ways.filter((way) => lacks(this.#state, way, !refused))
      const way = wayAt(text, error, gaps)
      const isNull =
        refused && wayAt(text, error, ways, false) !== undefined && !wayAt(text, error, gaps, false)
      if (way && !isNull) throw missingFailure(error, path, way, this.#state)
      if (refused) return this.#run(template, { ...ALL_FUNCTIONS, ...this.#functions })
      throw error
    }
  }

  #run(template: Template, functions: Functions): string {
    return renderText(template, this.#state, { missingKey: 'unprintable', budget: this.#budget, functions })
  }
}

/** What the state does not hold, with what to do about it. */
function missingFailure(
  error: TemplateError,
  path: readonly (string | number)[],
  way: readonly string[],
  state: Json,
): ConfigRenderError {
  const reference = way.slice(1).join('.')
  const root = (state as { [root: string]: Json } | null)?.[way[0]!]
  const { message, next } = missingWords(way.slice(1), root)
  const where = path.length === 0 ? '' : `${path.join('.')}: `
  return new ConfigRenderError('missing_value', `${where}${message}`, placeOf(path, error), {
    reference,
    next,
    cause: error,
  })
}

function missingWords(way: readonly string[], state: Json | undefined): { message: string; next: string } {
  const [part, name = '', third = '', fourth] = way
  const reference = way.join('.')
  const message = `.${reference} has no value`
  if (part === 'components') {
    const known = childrenOf(state, ['components', name, 'outputs'])
    const deployed = childrenOf(state, ['components', name]).includes('populated') && known.length > 0
    if (third === 'outputs' && fourth !== undefined && deployed)
      return { message, next: `${name} gives no output ${fourth}; it gives ${known.join(', ')}` }
    return { message, next: `deploy ${name} first, or give a value for when it is not there: | default "…"` }
  }
  if (part === 'inputs' || (part === 'install' && name === 'inputs'))
    return {
      message,
      next: `set the input ${(name === 'inputs' ? third : name) || 'that it names'} of the install`,
    }
  if (part === 'secrets')
    return { message, next: `set the secret: tenon installs secrets set INSTALL ${name}` }
  if (part === 'sandbox') return { message, next: 'provision the sandbox, and see which outputs it gives' }
  if (part === 'actions') return { message, next: `run the action ${third || 'that it names'} first` }
  return { message, next: 'the install’s state has no such value; correct the name, or use | default "…"' }
}

/** What the language says of a template, in our terms. */
export function templateFailure(error: TemplateError, path: readonly (string | number)[]): ConfigRenderError {
  const limit = error.code === 'limit'
  return new ConfigRenderError(limit ? 'too_large' : 'bad_template', error.message, placeOf(path, error), {
    next: limit ? 'make the template do less' : 'correct the template',
    cause: error,
  })
}

function placeOf(path: readonly (string | number)[], error: TemplateError) {
  return { path, line: error.line, column: error.column }
}

function isStateWay(way: readonly string[]): boolean {
  return way.length > 1 && STATE_ROOTS.includes(way[0] as (typeof STATE_ROOTS)[number])
}

/** Of some ways the one that the failing action is about; `orFirst`: any, when the action does not tell. */
function wayAt(
  text: string,
  error: TemplateError,
  ways: readonly string[][],
  orFirst = true,
): readonly string[] | undefined {
  const before = text.split('\n').slice(0, error.line - 1)
  const offset = before.reduce((sum, line) => sum + line.length + 1, 0) + error.column - 1
  const end = text.indexOf('}}', offset)
  const action = text.slice(Math.max(text.lastIndexOf('{{', offset), 0), end < 0 ? undefined : end)
  const named = ways.filter((way) => action.includes(`.${way.join('.')}`))
  const ended = ways.filter((way) => action.includes(way.at(-1)!))
  return named.toSorted((a, b) => b.length - a.length)[0] ?? ended[0] ?? (orFirst ? ways[0] : undefined)
}

function lacks(state: Json | undefined, way: readonly string[], orNull: boolean): boolean {
  const [key, ...rest] = way
  if (key === undefined) return state === undefined || (orNull && state === null)
  if (typeof state !== 'object' || state === null) return true
  if (key === EACH) return Object.values(state).some((child) => lacks(child, rest, orNull))
  const child = Object.hasOwn(state, key) ? (state as { [key: string]: Json })[key] : undefined
  return lacks(child, rest, orNull)
}

function childrenOf(state: Json | undefined, way: readonly string[]): string[] {
  let at = state
  for (const key of way) {
    const holds = typeof at === 'object' && at !== null && Object.hasOwn(at, key)
    at = holds ? (at as { [key: string]: Json })[key] : undefined
  }
  return typeof at === 'object' && at !== null ? Object.keys(at) : []
}

/** A function that would use a value was given none. */
class MissingArgument extends CallError {}

/** These may be given what is missing: they ask whether it is there, choose, or pass it on. */
const MAY_BE_MISSING = new Set(
  (
    'and or not default coalesce empty ternary all any eq ne hasKey dig get index kindOf kindIs typeOf typeIs ' +
    'typeIsLike deepEqual dict list tuple set unset pluck merge mergeOverwrite append prepend push compact ' +
    'fail required'
  ).split(' '),
)

const STRICT_FUNCTIONS: Functions = Object.fromEntries(
  Object.entries(ALL_FUNCTIONS).map(([name, known]) => [
    name,
    MAY_BE_MISSING.has(name) ? known : strict(known),
  ]),
)

function strict(known: GoFunction): GoFunction {
  return {
    ...known,
    call: (budget, args) => {
      if (args.some(isMissing)) throw new MissingArgument('the value does not exist')
      return known.call(budget, args)
    },
  }
}
