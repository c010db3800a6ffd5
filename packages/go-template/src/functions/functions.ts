import type { Budget } from '../budget.ts'
import type { GoList, GoMap, GoObject, Value } from '../values/values.ts'

/** The parameter types that Go's functions have, and how each reaches the body of a function. */
interface ParameterTypes {
  string: string
  /** Go's int, as a number: sizes and positions. */
  int: number
  float64: number
  bool: boolean
  any: Value
  /** A `reflect.Value`: unlike `any` it tells an invalid value from a nil. */
  value: Value
  dict: GoMap
  list: GoList
  semver: GoObject
}

export type Parameter = keyof ParameterTypes

type Arguments<P extends readonly Parameter[]> = { [K in keyof P]: ParameterTypes[P[K]] }

export interface GoFunction {
  readonly parameters: readonly Parameter[]
  readonly rest: Parameter | undefined
  readonly call: (budget: Budget, args: readonly Value[]) => Value
}

export type Functions = Readonly<Record<string, GoFunction>>

/** A function of fixed parameters. */
export function fn<const P extends readonly Parameter[]>(
  parameters: P,
  body: (...args: Arguments<P>) => Value,
): GoFunction {
  return { parameters, rest: undefined, call: (_, args) => body(...(args as unknown as Arguments<P>)) }
}

/** A function whose last parameter repeats. */
export function variadic<const P extends readonly Parameter[], R extends Parameter>(
  parameters: P,
  rest: R,
  body: (...args: [...Arguments<P>, ...ParameterTypes[R][]]) => Value,
): GoFunction {
  type All = [...Arguments<P>, ...ParameterTypes[R][]]
  return { parameters, rest, call: (_, args) => body(...(args as unknown as All)) }
}

/** A function that may make much of little, and so pays for its work as it goes. */
export function metered<const P extends readonly Parameter[]>(
  parameters: P,
  body: (budget: Budget, ...args: Arguments<P>) => Value,
): GoFunction {
  return {
    parameters,
    rest: undefined,
    call: (budget, args) => body(budget, ...(args as unknown as Arguments<P>)),
  }
}

export function meteredVariadic<const P extends readonly Parameter[], R extends Parameter>(
  parameters: P,
  rest: R,
  body: (budget: Budget, ...args: [...Arguments<P>, ...ParameterTypes[R][]]) => Value,
): GoFunction {
  type All = [...Arguments<P>, ...ParameterTypes[R][]]
  return { parameters, rest, call: (budget, args) => body(budget, ...(args as unknown as All)) }
}

const GO_NAMES: Readonly<Record<Parameter, string>> = {
  string: 'string',
  int: 'int',
  float64: 'float64',
  bool: 'bool',
  any: 'interface {}',
  value: 'reflect.Value',
  dict: 'map[string]interface {}',
  list: '[]interface {}',
  semver: '*semver.Version',
}

export const goName = (parameter: Parameter): string => GO_NAMES[parameter]
