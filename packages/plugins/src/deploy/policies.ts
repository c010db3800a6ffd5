import { runInNewContext } from 'node:vm'
import { Environment } from '@marcbachmann/cel-js'
import type { Json } from '@tenon/core'
import {
  CEL_LIMITS,
  policyRules,
  type ComponentJobConfig,
  type PlanResult,
  type PolicyRule,
} from '@tenon/protocol'
import { parse } from 'yaml'
import { PluginError } from '../sdk/errors.ts'

type Finding = PlanResult['findings'][number]

export interface PolicyFacts {
  plan: { changes: Json; counts: Json; hasChanges: boolean }
  /** Everything that will be there, whole: Kubernetes objects, or Terraform resources with their values. */
  resources: Json[]
  images: string[]
  component: Json
}

const MAX_FINDINGS = 60
const MAX_MS = 2000

/** What the policies say of a plan. A policy that cannot be evaluated is an error, never a pass. */
export function evaluatePolicies(
  policies: ComponentJobConfig['policies'],
  facts: PolicyFacts,
  maxMs = MAX_MS,
): Finding[] {
  const given = bigInts(facts as unknown as Json) as Record<string, unknown>
  const findings = policies.flatMap(({ name, contents }) =>
    readRules(name, contents).flatMap((each) => ask(name, each, given, maxMs)),
  )
  return bounded(findings)
}

/** What forbids comes first: however much else is said, it is never what is left out. */
function bounded(findings: readonly Finding[]): Finding[] {
  if (findings.length <= MAX_FINDINGS) return [...findings]
  const ordered = [
    ...findings.filter(({ outcome }) => outcome === 'deny'),
    ...findings.filter(({ outcome }) => outcome === 'warn'),
  ]
  const left = findings.length - (MAX_FINDINGS - 1)
  const { policy, outcome } = ordered[MAX_FINDINGS - 1]!
  const more: Finding = { policy, outcome, message: `and ${left} more findings that are not shown` }
  return [...ordered.slice(0, MAX_FINDINGS - 1), more]
}

function readRules(name: string, contents: string): PolicyRule[] {
  let value: unknown
  try {
    value = parse(contents, { maxAliasCount: 10 })
  } catch (cause) {
    throw unusable(name, `is not YAML: ${cause instanceof Error ? cause.message : ''}`, cause)
  }
  const parsed = policyRules.safeParse(value)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.slice(0, 3).map(({ path, message }) => `${path.join('.')} ${message}`)
  throw unusable(name, `is not a list of rules (${issues.join('; ')})`)
}

function ask(name: string, given: PolicyRule, facts: Record<string, unknown>, maxMs: number): Finding[] {
  const outcome = given.deny === undefined ? 'warn' : 'deny'
  const condition = given.deny ?? given.warn ?? 'false'
  const evaluate = evaluator(name, maxMs)
  const all = given.each === undefined ? [undefined] : evaluate(given.each, facts)
  if (!Array.isArray(all)) throw unusable(name, `has an \`each\` that is no list: ${given.each}`)
  const findings: Finding[] = []
  for (const it of all as unknown[]) {
    const variables = given.each === undefined ? facts : { ...facts, it }
    const speaks = evaluate(condition, variables)
    if (typeof speaks !== 'boolean') throw unusable(name, `does not answer true or false: ${condition}`)
    if (!speaks) continue
    const said = given.message === undefined ? condition : evaluate(given.message, variables)
    findings.push({ policy: name, outcome, message: String(said).slice(0, 500) })
    if (findings.length >= MAX_FINDINGS) break
  }
  return findings
}

/** CEL has no loops without end, but comprehensions in comprehensions take as long as they like: so a clock stops them. */
function evaluator(name: string, maxMs: number) {
  const environment = new Environment({ unlistedVariablesAreDyn: true, limits: CEL_LIMITS })
  const deadline = Date.now() + maxMs
  return (expression: string, variables: Record<string, unknown>): unknown => {
    try {
      const run = () => environment.evaluate(expression, variables) as unknown
      return runInNewContext('run()', { run }, { timeout: Math.max(1, deadline - Date.now()) }) as unknown
    } catch (cause) {
      const why = cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : String(cause)
      throw unusable(name, `cannot be evaluated: ${why} in ${expression.slice(0, 200)}`, cause)
    }
  }
}

/** CEL tells integers from fractions; JSON does not. */
function bigInts(value: Json): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value
  if (Array.isArray(value)) return value.map(bigInts)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, bigInts(child)]))
}

function unusable(name: string, why: string, cause?: unknown): PluginError {
  return new PluginError(
    'policy_invalid',
    `The policy ${name} ${why}.`,
    'Correct the policy, see docs/plugins.md.',
    cause,
  )
}
