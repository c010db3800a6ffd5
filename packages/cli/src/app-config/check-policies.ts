import { Environment } from '@marcbachmann/cel-js'
import { CEL_LIMITS, POLICY_VARIABLES, policyRules, type PolicyRule } from '@tenon/protocol'
import { LineCounter, parseDocument } from 'yaml'
import type { Place } from './locate.ts'
import type { Parts } from './parts.ts'

/** Every expression of the policies in CEL must compile, as the job that evaluates them would have it. */
export function checkPolicies(parts: Pick<Parts, 'policies'>): void {
  for (const { value, toml, path } of parts.policies) {
    if (value.engine !== 'cel') continue
    for (const { place, message, expected } of mistakesIn(value.contents))
      toml.problemInString([...path, 'contents'], place, `the policy ${value.name} ${message}`, expected)
  }
}

interface Mistake {
  place: Place
  message: string
  expected: string
}

const START: Place = { line: 1, column: 1 }

/** Pure: what is wrong with a policy's contents, with its place in them. */
export function mistakesIn(contents: string): Mistake[] {
  const lineCounter = new LineCounter()
  const document = parseDocument(contents, { lineCounter })
  const placeAt = (offset: number | undefined): Place => {
    const { line, col } = lineCounter.linePos(offset ?? 0)
    return { line: Math.max(1, line), column: Math.max(1, col) }
  }
  const [broken] = document.errors
  if (broken) {
    const why = broken.message.split('\n')[0]?.replace(/ at line \d+, column \d+:$/, '') ?? ''
    return [{ place: placeAt(broken.pos[0]), message: `is not YAML: ${why}`, expected: 'a list of rules' }]
  }
  const parsed = policyRules.safeParse(document.toJS({ maxAliasCount: 10 }))
  if (!parsed.success)
    return parsed.error.issues.slice(0, 1).map(({ path, message }) => ({
      place: START,
      message: `is not a list of rules: ${path.join('.')} ${message}`.replace(/ {2,}/g, ' '),
      expected: 'a list of rules, each with deny or warn, and message and each if it needs them',
    }))
  return parsed.data.flatMap((rule, i) =>
    expressionsOf(rule).flatMap(({ field, text, gives }) => {
      const wrong = compile(text, field !== 'each' && rule.each !== undefined, gives)
      if (wrong === undefined) return []
      const node = document.getIn([i, field], true) as { range?: [number] } | undefined
      return [
        { ...wrong, place: placeAt(node?.range?.[0]), message: `${wrong.message} in ${field}: ${text}` },
      ]
    }),
  )
}

function expressionsOf(rule: PolicyRule) {
  const all = [
    { field: 'each', text: rule.each, gives: 'list' },
    { field: 'deny', text: rule.deny, gives: 'bool' },
    { field: 'warn', text: rule.warn, gives: 'bool' },
    { field: 'message', text: rule.message, gives: undefined },
  ] as const
  return all.flatMap(({ text, ...rest }) => (text === undefined ? [] : [{ ...rest, text }]))
}

const WORDS = { list: 'a list', bool: 'true or false' } as const

function compile(
  text: string,
  hasIt: boolean,
  gives: 'list' | 'bool' | undefined,
): { message: string; expected: string } | undefined {
  const names = [...POLICY_VARIABLES, ...(hasIt ? ['it'] : [])]
  const environment = new Environment({ unlistedVariablesAreDyn: false, limits: CEL_LIMITS })
  for (const name of names) environment.registerVariable(name, 'dyn')
  const result = environment.check(text)
  if (!result.valid) {
    const why = result.error?.message.split('\n')[0] ?? 'it is no CEL'
    return { message: `does not compile: ${why},`, expected: `CEL over ${names.join(', ')}` }
  }
  const type = String(result.type)
  if (gives === undefined || type.startsWith('dyn') || type.startsWith(gives)) return undefined
  return { message: `gives ${type}`, expected: WORDS[gives] }
}
