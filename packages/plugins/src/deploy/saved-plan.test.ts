import { expect, it } from 'vitest'
import type { Work } from './operation.ts'
import { approvedPlan } from './saved-plan.ts'

const asked = (plan: object) => {
  const api = { plan: async () => Buffer.from(JSON.stringify(plan)) }
  const work = { api, operation: { approvedPlan: 'sha256:a' } } as unknown as Work<unknown>
  return approvedPlan(work, async () => 'b')
}

it('an approved plan is carried out as it is, or called stale with a way on: never in part', async () => {
  const plan = { version: 1, base: 'b', objects: [] }
  expect(await asked(plan)).toMatchObject({ base: 'b', objects: [] })
  for (const other of [
    { ...plan, prune: true },
    { ...plan, version: 2 },
    { ...plan, base: 'c' },
  ])
    await expect(asked(other)).rejects.toMatchObject({
      code: 'plan_stale',
      remedy: 'Plan again and approve the new plan.',
    })
})
