import type { Budget } from '../budget.ts'
import { CallError } from '../errors.ts'
import { type GoFunction, goName, type Parameter } from '../functions/functions.ts'
import { type AnyNode, nodeText, type Operand } from '../syntax/nodes.ts'
import { GoList, GoMap, Int, isObject, isTrue, nilList, typeName, type Value } from '../values/values.ts'

/** No value came down the pipe. Not `undefined`, which is a value. */
export const NOTHING = Symbol('nothing')
export type Piped = Value | typeof NOTHING

/** One call in a template: the operands after the name, and what the pipe brings as the last of them. */
export interface CallSite {
  readonly dot: Value
  readonly args: readonly Operand[]
  readonly piped: Piped
  readonly node: AnyNode
}

/** What a call needs of the evaluator. */
export interface CallHost {
  readonly budget: Budget
  at(node: AnyNode): void
  fail(message: string, cause?: unknown): never
  operand(dot: Value, node: Operand): Value
}

export function evaluateCall(host: CallHost, goFunction: GoFunction, name: string, site: CallSite): Value {
  host.budget.spend(1)
  checkCount(host, goFunction, name, site)
  if (name === 'and' || name === 'or') return shortCircuit(host, name === 'or', site)
  const { parameters, rest } = goFunction
  const parameterAt = (i: number): Parameter => parameters[i] ?? rest ?? 'any'
  const args = site.args.map((arg, i) => evaluateArgument(host, site.dot, parameterAt(i), arg))
  if (site.piped !== NOTHING) args.push(checkType(host, site.piped, parameterAt(args.length)))
  for (const arg of args) if (typeof arg === 'string') host.budget.handled(arg.length)
  try {
    const result = goFunction.call(host.budget, args)
    if (typeof result === 'string') host.budget.handled(result.length)
    else if (result instanceof GoList) host.budget.spend(result.items.length / 16)
    return result
  } catch (error) {
    if (!(error instanceof CallError)) throw error
    host.at(site.node)
    return host.fail(`error calling ${name}: ${error.message}`, error)
  }
}

function checkCount(host: CallHost, { parameters, rest }: GoFunction, name: string, site: CallSite): void {
  const given = site.args.length + (site.piped === NOTHING ? 0 : 1)
  const wanted = parameters.length
  if (rest ? given >= wanted : given === wanted) return
  const count = rest ? `at least ${wanted} got ${site.args.length}` : `${wanted} got ${given}`
  host.fail(`wrong number of args for ${name}: want ${count}`)
}

/** `and` and `or` evaluate no more than they need. */
function shortCircuit(host: CallHost, stopsAt: boolean, site: CallSite): Value {
  let value: Value
  for (const arg of site.args) {
    value = evaluateArgument(host, site.dot, 'value', arg)
    if (isTrue(value) === stopsAt) return value
  }
  return site.piped === NOTHING ? value : site.piped
}

function evaluateArgument(host: CallHost, dot: Value, parameter: Parameter, node: Operand): Value {
  host.at(node)
  switch (node.kind) {
    case 'nil':
      if (canBeNil(parameter)) return zeroOf(parameter)
      return host.fail(`cannot assign nil to ${goName(parameter)}`)
    case 'string':
    case 'bool':
    case 'number':
      return evaluateLiteral(host, parameter, node)
    default:
      return checkType(host, host.operand(dot, node), parameter)
  }
}

function evaluateLiteral(host: CallHost, parameter: Parameter, node: Operand): Value {
  const text = nodeText(node)
  switch (parameter) {
    case 'any':
    case 'value':
      return host.operand(undefined, node)
    case 'string':
      return node.kind === 'string' ? node.text : host.fail(`expected string; found ${text}`)
    case 'bool':
      return node.kind === 'bool' ? node.value : host.fail(`expected bool; found ${text}`)
    case 'int':
      if (node.kind === 'number' && node.integer !== undefined) return Number(node.integer)
      return host.fail(`expected integer; found ${text}`)
    case 'float64':
      if (node.kind === 'number' && node.float !== undefined) return node.float
      return host.fail(`expected float; found ${text}`)
    default:
      return host.fail(`can't handle ${text} for arg of type ${goName(parameter)}`)
  }
}

const canBeNil = (parameter: Parameter): boolean => !['string', 'int', 'float64', 'bool'].includes(parameter)

function zeroOf(parameter: Parameter): Value {
  if (parameter === 'dict') return new GoMap('interface {}', undefined, true)
  if (parameter === 'list') return nilList()
  return parameter === 'value' ? undefined : null
}

function checkType(host: CallHost, value: Value, parameter: Parameter): Value {
  if (parameter === 'value') return value
  if (value === undefined) {
    return canBeNil(parameter) ? zeroOf(parameter) : host.fail(`invalid value; expected ${goName(parameter)}`)
  }
  if (parameter === 'any') return value
  if (parameter === 'int' && value instanceof Int && value.kind === 'int') return Number(value.value)
  if (isOfType(value, parameter)) return value
  const got = value === null ? 'interface {}' : typeName(value)
  return host.fail(`wrong type for value; expected ${goName(parameter)}; got ${got}`)
}

function isOfType(value: Value, parameter: Parameter): boolean {
  switch (parameter) {
    case 'string':
      return typeof value === 'string'
    case 'bool':
      return typeof value === 'boolean'
    case 'float64':
      return typeof value === 'number'
    case 'dict':
      return value instanceof GoMap && value.elem === 'interface {}'
    case 'list':
      return value instanceof GoList && value.elem === 'interface {}'
    case 'semver':
      return isObject(value) && value.goType === '*semver.Version'
    default:
      return false
  }
}
