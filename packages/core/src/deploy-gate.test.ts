import { describe, expect, it } from 'vitest'
import { deployBehind, guardsOf, passGate, repeatedWith, type GateStep } from './deploy-gate.ts'
import type { StepStatus } from './states.ts'

const step = (key: string, dependsOn: string[], status: StepStatus = 'succeeded'): GateStep => ({
  key,
  kind: key.split(':')[0] as GateStep['kind'],
  dependsOn,
  status,
})
const steps = (statuses: { [key: string]: StepStatus } = {}): GateStep[] =>
  [
    step('sync:db', []),
    step('plan:db', ['sync:db']),
    step('approval:db', ['plan:db']),
    step('action:check/db', ['approval:db', 'sync']),
    step('deploy:db', ['action:check/db'], 'pending'),
    step('action:tell/db', ['deploy:db'], 'pending'),
    step('sync:web', []),
    step('deploy:web', ['sync:web', 'deploy:db'], 'pending'),
  ].map((each) => ({ ...each, status: statuses[each.key] ?? each.status }))
const find = (key: string, all = steps()) => all.find((each) => each.key === key)!
const keys = (some: readonly GateStep[]) => some.map(({ key }) => key)
const gate = (all = steps(), rest = {}) =>
  passGate({
    deploy: find('deploy:db', all),
    steps: all,
    plannedOf: 'x',
    approvedOf: undefined,
    madeOf: 'x',
    approval: 'prompt',
    ...rest,
  })

describe('the gate of a deploy', () => {
  it('is all that stands before it, and nothing of another component', () => {
    expect(keys(guardsOf(find('deploy:db'), steps()))).toEqual(['plan:db', 'approval:db', 'action:check/db'])
    expect(guardsOf(find('deploy:web'), steps())).toEqual([])
  })

  it('is passed by no step that is left out while the deploy may still run', () => {
    for (const key of ['plan:db', 'approval:db', 'action:check/db'])
      expect(deployBehind(find(key), steps())).toBe('deploy:db')
    for (const key of ['sync:db', 'deploy:db', 'action:tell/db'])
      expect(deployBehind(find(key), steps())).toBeUndefined()
    expect(deployBehind(find('plan:db'), steps({ 'deploy:db': 'skipped' }))).toBeUndefined()
  })

  it('closes again when the deploy is tried again, and keeps what is at work for it', () => {
    const again = (key: string, all: GateStep[]) => keys(repeatedWith(find(key, all), all))
    const all = steps({ 'deploy:db': 'failed' })
    expect(again('deploy:db', all)).toEqual(['plan:db', 'approval:db', 'action:check/db', 'deploy:db'])
    expect(again('approval:db', steps({ 'approval:db': 'canceled' }))).toEqual(['plan:db', 'approval:db'])
    const waiting = steps({ 'approval:db': 'active', 'action:check/db': 'pending', 'deploy:db': 'canceled' })
    expect(again('deploy:db', waiting)).toEqual(['deploy:db'])
    expect(again('sync:db', all)).toEqual(['sync:db'])
  })

  it('opens only for what was planned, approved and checked', () => {
    expect(gate()).toEqual({ go: true })
    for (const key of ['plan:db', 'approval:db', 'action:check/db']) {
      for (const status of ['failed', 'canceled', 'pending', 'active'] as const)
        expect(gate(steps({ [key]: status }))).toMatchObject({ go: false, do: 'wait' })
      expect(gate(steps({ [key]: 'skipped' }))).toMatchObject({ go: false, do: 'repeat' })
    }
    expect(gate(steps(), { plannedOf: 'y' })).toMatchObject({ do: 'repeat' })
    expect(gate(steps(), { plannedOf: undefined })).toMatchObject({ do: 'repeat' })
  })

  it('asks where the install asks by now', () => {
    const all = [step('plan:db', []), step('deploy:db', ['plan:db'], 'pending')]
    expect(gate(all)).toMatchObject({ go: false, do: 'ask' })
    expect(gate(all, { approval: 'approve-all' })).toEqual({ go: true })
  })

  it('asks about what has no plan as well, and opens only for what was approved', () => {
    const bare = [step('sync:db', []), step('deploy:db', ['sync:db'], 'pending')]
    const none = { plannedOf: undefined }
    expect(gate(bare, none)).toMatchObject({ go: false, do: 'ask' })
    expect(gate(bare, { ...none, approval: 'approve-all' })).toEqual({ go: true })
    const asked = [...bare.slice(0, 1), step('approval:db', ['sync:db']), step('deploy:db', ['approval:db'])]
    expect(gate(asked, { ...none, approvedOf: 'x' })).toEqual({ go: true })
    for (const approvedOf of ['y', undefined])
      for (const approval of ['prompt', 'approve-all'])
        expect(gate(asked, { ...none, approvedOf, approval })).toMatchObject({ go: false, do: 'repeat' })
  })
})
