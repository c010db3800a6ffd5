import type { Budget } from '../budget.ts'
import { CallError } from '../errors.ts'
import { decodeText, encodeText } from '../values/bytes.ts'
import { GoMap, type Value } from '../values/values.ts'
import { YamlReader } from './read.ts'

/** Helm's `fromYaml`: a map, or a map with the problem under `Error`. */
export function fromYaml(budget: Budget, bytes: string): Value {
  try {
    const value = new YamlReader(budget, decodeText(bytes)).document()
    if (value instanceof GoMap) return value
    return value === null ? new GoMap() : problem(wrongType(value))
  } catch (error) {
    if (!(error instanceof CallError)) throw error
    return problem(`error converting YAML to JSON: ${error.message}`)
  }
}

const problem = (message: string): GoMap => GoMap.of([['Error', encodeText(message)]])

function wrongType(value: Value): string {
  const kind = { string: 'string', number: 'number', boolean: 'bool' }[typeof value as string] ?? 'array'
  return `error unmarshaling JSON: while decoding JSON: json: cannot unmarshal ${kind} into Go value of type map[string]interface {}`
}
