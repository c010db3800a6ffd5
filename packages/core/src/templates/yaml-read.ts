import type { Budget } from './budget.ts'
import { GoMap, type Value } from './values.ts'
export function fromYaml(_b: Budget, _text: string): Value { return new GoMap() }
