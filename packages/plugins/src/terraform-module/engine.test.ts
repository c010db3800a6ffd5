import { describe, expect, it } from 'vitest'
import { engineOrder, foreignProviders, lockedHosts } from './engine.ts'
import { packPlan, unpackPlan } from './saved-plan.ts'

const TERRAFORM = 'registry.terraform.io'
const TOFU = 'registry.opentofu.org'

describe('the engine of a module', () => {
  it.each([
    ['nothing', [], 'tofu'],
    ['providers of a registry of one own', ['registry.example.com'], 'tofu'],
    ["providers of Terraform's registry", [TERRAFORM, 'registry.example.com'], 'terraform'],
    ["providers of OpenTofu's registry", [TOFU], 'tofu'],
    ['providers of both', [TERRAFORM, TOFU], 'tofu'],
  ])('with %s pinned is first looked for as it should be', (_what, hosts, first) => {
    expect(engineOrder(hosts)[0]).toBe(first)
    expect(engineOrder(hosts).toSorted()).toEqual(['terraform', 'tofu'])
  })

  it('is told by the lock file', () => {
    const entry = (host: string) => `provider "${host}/hashicorp/null" {\n  version = "3.2.4"\n}\n`
    expect(lockedHosts(`# about\n\n${entry(TERRAFORM)}${entry('a.example.com:8443')}`)).toEqual([
      TERRAFORM,
      'a.example.com:8443',
    ])
    expect(lockedHosts('')).toEqual([])
  })

  it("is noted where it is not the one whose registry's names are pinned", () => {
    expect(foreignProviders('tofu', [TERRAFORM])).toContain('this job has tofu only')
    expect(foreignProviders('terraform', [TERRAFORM])).toBeUndefined()
    expect(foreignProviders('terraform', [TOFU])).toContain('this job has terraform only')
    expect(foreignProviders('terraform', [])).toBeUndefined()
  })
})

describe('a kept plan', () => {
  const here = { name: 'tofu', version: '1.12.6' } as const
  const plan = Buffer.from('PK\x03\x04\nthe plan\n')

  it('comes back as it was made', () => {
    expect(Buffer.from(unpackPlan(packPlan(here, plan), here, 'sha256:a'))).toEqual(plan)
  })

  it.each([
    ['without a word of its engine', plan],
    ['of another form', Buffer.from('{"savedPlan":2}\nplan')],
    ['without an end to its line', Buffer.alloc(4096, 'x')],
    ['of the other engine', packPlan({ name: 'terraform', version: '1.12.6' }, plan)],
    ['of another version', packPlan({ name: 'tofu', version: '1.12.5' }, plan)],
  ])('%s is stale', (_what, kept) => {
    expect(() => unpackPlan(kept, here, 'sha256:a')).toThrow(expect.objectContaining({ code: 'plan_stale' }))
  })
})
