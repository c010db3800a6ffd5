import { describe, expect, it } from 'vitest'
import { evaluatePolicies, type PolicyFacts } from './policies.ts'

const facts: PolicyFacts = {
  plan: {
    changes: [
      { action: 'delete', address: 'aws_db.main' },
      { action: 'create', address: 'aws_s3.logs' },
    ],
    counts: { create: 1, update: 0, delete: 1 },
    hasChanges: true,
  },
  resources: [{ kind: 'Deployment', metadata: { name: 'web' }, spec: { replicas: 1, cpu: 0.5 } }],
  images: ['reg:5000/apps/web@sha256:00'],
  component: { name: 'web', type: 'helm_chart' },
}
const ask = (contents: string, ms?: number) => evaluatePolicies([{ name: 'rule', contents }], facts, ms)

describe('policies on plans', () => {
  it('speak where their expression is true, in words of their own', () => {
    const found = ask(`
- deny: plan.counts.delete > 0
  message: '"deletes " + string(plan.counts.delete) + " of " + component.name'
- warn: resources.exists(r, r.kind == "Deployment" && r.spec.replicas < 2)
- deny: images.exists(i, !i.startsWith("reg:5000/"))
- warn: resources[0].spec.cpu < 1.0
  message: '"small"'
`)
    expect(found).toEqual([
      { policy: 'rule', outcome: 'deny', message: 'deletes 1 of web' },
      {
        policy: 'rule',
        outcome: 'warn',
        message: 'resources.exists(r, r.kind == "Deployment" && r.spec.replicas < 2)',
      },
      { policy: 'rule', outcome: 'warn', message: 'small' },
    ])
  })

  it('are asked once for each element of a list', () => {
    const contents =
      '[{"each": "plan.changes", "deny": "it.action == \\"delete\\"", "message": "it.address"}]'
    expect(ask(contents)).toEqual([{ policy: 'rule', outcome: 'deny', message: 'aws_db.main' }])
  })

  it.each([
    ['is no YAML', '- deny: [', /is not YAML/],
    ['is no list', 'deny: true', /is not a list of rules/],
    ['says both', '- deny: "true"\n  warn: "true"', /needs one of deny and warn/],
    ['misspells a key', '- dney: "true"', /is not a list of rules/],
    ['is no CEL', '- deny: "plan.counts.delete >"', /cannot be evaluated/],
    ['names what is not there', '- deny: plan.nothing.x > 1', /cannot be evaluated/],
    ['answers no yes or no', '- deny: plan.counts.delete', /does not answer true or false/],
    ['loops over no list', '- each: plan.counts.delete\n  deny: "true"', /`each` that is no list/],
  ])('are never passed by a policy that %s', (_what, contents, words) => {
    expect(() => ask(contents)).toThrow(words)
  })

  it('let no number of warnings hide what one of them forbids', () => {
    const warnings = Array.from({ length: 199 }, () => '- warn: "true"').join('\n')
    const found = ask(`${warnings}\n- deny: "true"\n  message: '"never"'`)
    expect(found[0]).toEqual({ policy: 'rule', outcome: 'deny', message: 'never' })
    expect(found).toHaveLength(60)
    expect(found.at(-1)?.message).toBe('and 141 more findings that are not shown')
  })

  it('are stopped when they take too long', () => {
    const list = `[${Array.from({ length: 60 }, (_, i) => i).join(',')}]`
    const loop = ['a', 'b', 'c', 'd', 'e', 'f'].reduceRight(
      (inner, name) => `${list}.all(${name}, ${inner})`,
      'true',
    )
    const started = Date.now()
    expect(() => ask(`- deny: "${loop}"`, 300)).toThrow(/policy rule cannot be evaluated/)
    expect(Date.now() - started).toBeLessThan(20_000)
  })
})
