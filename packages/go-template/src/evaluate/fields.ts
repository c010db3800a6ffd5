import type { Budget } from '../budget.ts'
import { GoMap, isObject, typeName, type Value } from '../values/values.ts'
import { type CallHost, type CallSite, evaluateCall, NOTHING } from './call.ts'

/** Go's own, and `unprintable`: as `default`, but to print what is missing is an error instead of `<no value>`. */
export type MissingKey = 'default' | 'invalid' | 'zero' | 'error' | 'unprintable'

/** What a chain of fields needs of the evaluator. */
export interface FieldHost extends CallHost {
  readonly missingKey: MissingKey
}

/** `.a.b.c` of a value. Only the last name may be a method with arguments. */
export function evaluateFields(
  host: FieldHost,
  receiver: Value,
  names: readonly string[],
  site: CallSite,
): Value {
  const last = names.length - 1
  const inner: CallSite = last > 0 ? { ...site, args: [], piped: NOTHING } : site
  let value = receiver
  for (let i = 0; i <= last; i++) {
    const type = i > 0 ? 'interface {}' : undefined
    value = evaluateField(host, value, names[i] as string, i === last ? site : inner, type)
  }
  return value
}

/** `type` names the receiver in messages where Go knows less than we do. */
function evaluateField(host: FieldHost, receiver: Value, name: string, site: CallSite, type?: string): Value {
  if (receiver === undefined) {
    return host.missingKey === 'error' ? host.fail(`nil data; no entry for key "${name}"`) : undefined
  }
  if (receiver === null) return host.fail(`nil pointer evaluating interface {}.${name}`)
  if (isObject(receiver)) {
    const method = Object.hasOwn(receiver.methods, name) ? receiver.methods[name] : undefined
    if (method) {
      const bound = {
        ...method,
        call: (budget: Budget, args: readonly Value[]) => method.call(budget, [receiver, ...args]),
      }
      return evaluateCall(host, bound, name, site)
    }
  }
  if (receiver instanceof GoMap) {
    if (site.args.length > 0 || site.piped !== NOTHING) {
      host.fail(`${name} is not a method but has arguments`)
    }
    const value = receiver.get(name)
    return value === undefined ? missing(host, name, receiver) : value
  }
  return host.fail(`can't evaluate field ${name} in type ${type ?? typeName(receiver)}`)
}

function missing(host: FieldHost, name: string, map: GoMap): Value {
  if (host.missingKey === 'error') return host.fail(`map has no entry for key "${name}"`)
  if (host.missingKey !== 'zero') return undefined
  return map.elem === 'string' ? '' : null
}
