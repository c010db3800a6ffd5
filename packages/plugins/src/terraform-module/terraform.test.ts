import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createDeployWorld, pushModule, type DeployWorld, type Given } from '../testing/deploy-world.ts'
import { until } from '../testing/programs.ts'
import { enginePath, terraformEngines } from '../testing/tools.ts'

vi.setConfig({ testTimeout: 180_000 })

const MARKER = 'marker-secret-7f3a91'

const MAIN = `
variable "size" { type = number }
variable "password" {
  type = string
  sensitive = true
}
variable "plain" { type = string }
variable "zones" {
  type = list(string)
  default = []
}
variable "extra" { default = "none" }
resource "terraform_data" "one" {
  input = { size = var.size, zones = var.zones, extra = var.extra }
}
resource "terraform_data" "secret" { input = { password = var.password, plain = var.plain } }
output "size" { value = var.size }
output "zones" { value = terraform_data.one.output.zones }
output "password" {
  value = var.password
  sensitive = true
}
output "leak" { value = "pre-\${var.plain}" }
`

for (const { name, program } of terraformEngines) {
  const absent = program === undefined ? ' (skipped: it is not here)' : ''
  // What does not depend on the engine is tried with the first one only: jobs take it, and the other costs the same time again.
  const isFirst = name === terraformEngines.find((engine) => engine.program !== undefined)?.name
  describe.skipIf(absent !== '')(`the component type terraform_module with ${name}${absent}`, () => {
    let deploys: DeployWorld
    let given: Given

    beforeAll(async () => {
      deploys = await createDeployWorld({
        types: ['terraform_module'],
        path: async ({ dir }) => enginePath(join(dir, 'engine'), { [name]: program }),
      })
      given = {
        component: 'infra',
        type: 'terraform_module',
        artifact: await pushModule(deploys, { 'main.tf': MAIN }),
        config: {
          terraform_version: '1.5.0',
          vars: {
            size: '{{ .nuon.inputs.inputs.size }}',
            password: '{{ .nuon.secrets.db_password }}',
            plain: '{{ .tenon.inputs.inputs.token }}',
            zones: '{{ toJson .nuon.inputs.inputs.zones }}',
          },
          var_file: [{ contents: 'extra = "from-file-{{ .nuon.install.name }}"' }],
        },
        inputs: { size: 2, zones: ['a', 'b'] },
        secrets: { db_password: MARKER },
        sensitiveInputs: { token: `${MARKER}-input` },
      }
    })
    afterAll(() => deploys?.close())

    it('plans, applies exactly the approved plan, and gives outputs with their sensitivity', async () => {
      const planned = await deploys.run('plan', given)
      expect(planned.message).toBe('2 to create.')
      const plan = planned.data['plan'] as { digest: string; changes: { address: string; after: unknown }[] }
      expect(plan.digest).toMatch(/^sha256:/)
      expect(plan.changes.find(({ address }) => address === 'terraform_data.one')?.after).toMatchObject({
        input: { size: 2, zones: ['a', 'b'], extra: 'from-file-acme' },
      })
      expect(planned.told).not.toContain(MARKER)
      expect(planned.log).not.toContain(MARKER)

      const done = await deploys.run('deploy', { ...given, approvedPlan: plan.digest })
      expect(done).toMatchObject({ ok: true, message: 'Applied; outputs: leak, password, size, zones.' })
      expect(done.data['engine']).toMatch(new RegExp(`^${name} 1\\.`))
      expect(done.outputs).toEqual({
        size: { sensitive: false, value: 2 },
        zones: { sensitive: false, value: ['a', 'b'] },
        password: { sensitive: true, value: MARKER },
        leak: { sensitive: true, value: `pre-${MARKER}-input` },
      })
      expect(done.told).not.toContain(MARKER)
      expect(done.log).not.toContain(MARKER)
      expect(deploys.store.states.get('infra')?.toString()).toContain(MARKER)
      expect(deploys.store.locks.size).toBe(0)

      const again = await deploys.run('plan', given)
      expect(again).toMatchObject({
        ok: true,
        message: 'Nothing changes.',
        data: { plan: { hasChanges: false } },
      })
      expect(await deploys.run('status', given)).toMatchObject({ ok: true, data: { isDrifted: false } })
    })

    it('refuses a plan that the state has left behind, and one that is not kept any more', async () => {
      const wanted = { ...given, inputs: { size: 3, zones: ['a'] } }
      const planned = await deploys.run('plan', wanted)
      const { digest } = planned.data['plan'] as { digest: string }
      expect(planned.data).toMatchObject({ plan: { counts: { create: 0, update: 1, delete: 0 } } })
      expect(await deploys.run('status', wanted)).toMatchObject({ data: { isDrifted: true } })
      expect((await deploys.run('deploy', { ...given, inputs: { size: 4, zones: [] } })).ok).toBe(true)
      const stale = await deploys.run('deploy', { ...wanted, approvedPlan: digest })
      expect(stale).toMatchObject({ ok: false, data: { code: 'plan_stale', final: true } })
      deploys.store.plans.delete(digest)
      const gone = await deploys.run('deploy', { ...wanted, approvedPlan: digest })
      expect(gone).toMatchObject({ ok: false, data: { code: 'plan_stale' } })
    })

    it('refuses a plan of the other engine, of another version, and one that does not say whose it is', async () => {
      const wanted = { ...given, inputs: { size: 5, zones: [] } }
      const planned = await deploys.run('plan', wanted)
      const { digest } = planned.data['plan'] as { digest: string }
      const kept = deploys.store.plans.get(digest) as Uint8Array
      const line = Buffer.from(kept.subarray(0, kept.indexOf(10))).toString()
      const version = /"version":"([^"]+)"/.exec(line)?.[1] ?? ''
      const other = name === 'tofu' ? 'terraform' : 'tofu'
      const state = deploys.store.states.get('infra')?.toString()
      for (const [changed, why] of [
        [line.replace(name, other), `${other} ${version} made it, and this job has ${name} ${version}.`],
        [line.replace(version, '1.0.0'), `${name} 1.0.0 made it, and this job has ${name} ${version}.`],
        ['', 'it does not say which engine made it.'],
      ] as const) {
        deploys.store.plans.set(digest, Buffer.concat([Buffer.from(changed), kept.subarray(line.length)]))
        const refused = await deploys.run('deploy', { ...wanted, approvedPlan: digest })
        expect(refused).toMatchObject({ ok: false, data: { code: 'plan_stale', final: true } })
        expect(refused.message).toContain(why)
      }
      expect(deploys.store.states.get('infra')?.toString()).toBe(state)
    })

    it.skipIf(!isFirst)('lets an install say otherwise, and evaluates policies on the plan', async () => {
      const policies = [
        {
          name: 'small',
          contents: [
            '- each: resources.filter(r, r.type == "terraform_data" && has(r.after.input.size))',
            '  deny: it.after.input.size > 8',
            '  message: it.address + " is larger than 8"',
            '- warn: plan.counts.update > 0',
            '  message: \'"changes " + string(plan.counts.update)\'',
          ].join('\n'),
        },
      ]
      const large = await deploys.run('plan', {
        ...given,
        more: { policies, overrides: { tf_vars: { size: 9 } } },
      })
      expect(large).toMatchObject({ ok: false, data: { code: 'policy_denied', final: true } })
      expect(large.message).toContain('small: terraform_data.one is larger than 8')
      const fine = await deploys.run('plan', { ...given, more: { policies } })
      expect(fine).toMatchObject({
        ok: true,
        data: { plan: { findings: [{ policy: 'small', outcome: 'warn', message: 'changes 1' }] } },
      })
    })

    it.skipIf(!isFirst)('says which secret or output is missing and what to do', async () => {
      const { db_password: _, ...none } = given.secrets ?? {}
      const secret = await deploys.run('plan', { ...given, secrets: none })
      expect(secret).toMatchObject({ ok: false, data: { code: 'secret_missing', final: true } })
      expect(secret.message).toContain('vars.password')
      const vars = { ...(given.config['vars'] as object), size: '{{ .nuon.components.db.outputs.size }}' }
      const output = await deploys.run('plan', { ...given, config: { ...given.config, vars } })
      expect(output).toMatchObject({ ok: false, data: { code: 'output_missing', final: true } })
      expect(output.message).toMatch(/components\.db\.outputs\.size.*Deploy db first/)
    })

    it('refuses a version that the program does not have, and a provider that did not come along', async () => {
      const config = { ...given.config, terraform_version: '2.0.0' }
      const unfit = await deploys.run('plan', { ...given, config })
      expect(unfit).toMatchObject({ ok: false, data: { code: 'tool_unfit', final: true } })
      expect(unfit.message).toContain('asks for terraform 2.0.0')
      expect(unfit.message).toContain(`this job has ${name} 1.`)
      const needy = 'terraform {\n  required_providers {\n    null = { source = "hashicorp/null" }\n  }\n}\n'
      const artifact = await pushModule(deploys, { 'main.tf': `${needy}resource "null_resource" "a" {}\n` })
      const missing = await deploys.run('plan', { ...given, component: 'needy', artifact, config: {} })
      expect(missing).toMatchObject({ ok: false, data: { code: 'tool_failed' } })
      expect(missing.message).toContain('hashicorp/null')
    })

    it('tells the engine to stop, waits for it, and leaves no lock', async () => {
      const slow =
        'resource "terraform_data" "slow" {\n  provisioner "local-exec" { command = "sleep 60" }\n}\n'
      const artifact = await pushModule(deploys, { 'main.tf': slow })
      const { job, api } = await deploys.start('deploy', {
        ...given,
        component: 'slow',
        artifact,
        config: {},
      })
      await until('the provisioner', () => job.output().includes('Provisioning with'), 60)
      job.child.kill('SIGTERM')
      expect(await job.ended).toBe(1)
      expect(api.record.result).toMatchObject({ ok: false, data: { code: 'canceled' } })
      expect(job.output()).toContain('Interrupt received')
      expect(deploys.store.locks.size).toBe(0)
    })

    it('destroys what it made', async () => {
      const done = await deploys.run('destroy', given)
      expect(done).toMatchObject({ ok: true, message: 'Destroyed.' })
      const state = JSON.parse(deploys.store.states.get('infra')?.toString() ?? '{}') as {
        resources: unknown[]
      }
      expect(state.resources).toEqual([])
    })
  })
}

describe('a job without an engine', () => {
  it('says which programs would do, and where they belong', async () => {
    const deploys = await createDeployWorld({
      types: ['terraform_module'],
      path: async ({ dir }) => enginePath(join(dir, 'engine'), {}),
    })
    try {
      const artifact = await pushModule(deploys, { 'main.tf': MAIN })
      const refused = await deploys.run('plan', { type: 'terraform_module', artifact, config: {} })
      expect(refused).toMatchObject({ ok: false, data: { code: 'tool_missing', final: true } })
      expect(refused.message).toMatch(/no tofu or terraform\. Install it where the install agent's jobs run/)
    } finally {
      await deploys.close()
    }
  })
})
