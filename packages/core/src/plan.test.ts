import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { App, AppAction } from './app.ts'
import { APPROVAL_OPTIONS, planRun, type Decision, type InstallState, type PlannedStep } from './plan.ts'

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f']

function appOf(graph: Record<string, string[]>): App {
  const components = Object.entries(graph).map(([name, dependencies]) => ({
    name,
    type: 'script',
    dependencies,
    config: {},
  }))
  return { name: 'app', displayName: '', description: '', components }
}

/** Acyclic: a component depends only on ones before it. Listed in any order. */
const anyApp = fc
  .tuple(
    fc.array(fc.array(fc.nat(NAMES.length - 1), { maxLength: 3 }), {
      minLength: 1,
      maxLength: NAMES.length,
    }),
    fc.boolean(),
  )
  .map(([rows, reversed]) => {
    const graph = rows.map((row, i) => [NAMES[i]!, row.filter((d) => d < i).map((d) => NAMES[d]!)] as const)
    return appOf(Object.fromEntries(reversed ? graph.toReversed() : graph))
  })
const anyNames = fc.subarray(NAMES)
const anyState: fc.Arbitrary<InstallState> = fc.record({
  deployed: anyNames.map((names) => new Set(names)),
  hasSandbox: fc.boolean(),
  disabled: anyNames.map((names) => new Set(names)),
  plannable: fc.constantFrom(new Set<string>(), new Set(['script'])),
  approval: fc.constantFrom(...APPROVAL_OPTIONS),
})
const anyDecision: fc.Arbitrary<Decision> = fc.oneof(
  fc.constant<Decision>({ kind: 'provision' }),
  fc.constant<Decision>({ kind: 'deprovision' }),
  anyNames.map((components): Decision => ({ kind: 'deploy', components })),
  anyNames.map((components): Decision => ({ kind: 'teardown', components })),
)

/** Does `above` need `below`, over any number of steps? */
function needs(app: App, above: string, below: string): boolean {
  const direct = app.components.find((c) => c.name === above)?.dependencies ?? []
  return direct.includes(below) || direct.some((d) => needs(app, d, below))
}

/** Must `later` wait for `earlier`, over any number of steps? */
function waitsFor(steps: PlannedStep[], later: string, earlier: string): boolean {
  const direct = steps.find((s) => s.key === later)?.dependsOn ?? []
  return direct.includes(earlier) || direct.some((d) => waitsFor(steps, d, earlier))
}

const BARE: InstallState = {
  deployed: new Set(),
  hasSandbox: true,
  disabled: new Set(),
  plannable: new Set(),
  approval: 'approve-all',
}
const keys = (steps: PlannedStep[]) => steps.map((s) => s.key)

describe('planRun', () => {
  it('provisions the sandbox, waits for the agent, then syncs everything at once and deploys in order', () => {
    const steps = planRun({ kind: 'provision' }, appOf({ web: ['db'], db: [] }), BARE)
    expect(steps.map((s) => [s.key, s.dependsOn])).toEqual([
      ['sandbox', []],
      ['agent', ['sandbox']],
      ['sync:db', ['agent']],
      ['deploy:db', ['sync:db']],
      ['sync:web', ['agent']],
      ['deploy:web', ['sync:web', 'deploy:db']],
    ])
  })

  it('gives unique steps, each after all that it depends on, whatever is decided', () => {
    fc.assert(
      fc.property(anyDecision, anyApp, anyState, (decision, app, state) => {
        const steps = planRun(decision, app, state)
        expect(new Set(keys(steps)).size).toBe(steps.length)
        for (const [i, { dependsOn }] of steps.entries()) {
          for (const d of dependsOn) expect(keys(steps.slice(0, i))).toContain(d)
        }
      }),
    )
  })

  it('is the same every time, also when the components are listed in another order', () => {
    fc.assert(
      fc.property(anyDecision, anyApp, anyState, (decision, app, state) => {
        const other = { ...app, components: app.components.toReversed() }
        expect(planRun(decision, other, state)).toEqual(planRun(decision, app, state))
      }),
    )
  })

  it('lets a deploy wait for exactly those it needs, also through one that is not deployed now', () => {
    fc.assert(
      fc.property(anyApp, anyNames, (app, components) => {
        const steps = planRun({ kind: 'deploy', components }, app, BARE)
        const there = components.filter((c) => app.components.some((k) => k.name === c))
        expect(keys(steps).toSorted()).toEqual(there.flatMap((c) => [`deploy:${c}`, `sync:${c}`]).toSorted())
        for (const a of there) {
          expect(steps.find((s) => s.key === `sync:${a}`)?.dependsOn).toEqual([])
          for (const b of there) {
            expect(waitsFor(steps, `deploy:${a}`, `deploy:${b}`)).toBe(needs(app, a, b))
          }
        }
      }),
    )
  })

  it('tears down in exactly the reverse of the order it deploys in', () => {
    fc.assert(
      fc.property(anyApp, anyNames, (app, chosen) => {
        const components = chosen.filter((c) => app.components.some((k) => k.name === c))
        const up = planRun({ kind: 'deploy', components }, app, BARE)
        const down = planRun({ kind: 'teardown', components }, app, BARE)
        const deploys = up.filter((s) => s.kind === 'deploy')
        expect(down.map((s) => s.component)).toEqual(deploys.map((s) => s.component).toReversed())
        const upEdges = deploys.flatMap((s) =>
          s.dependsOn.filter((d) => d.startsWith('deploy:')).map((d) => `${d.slice(7)}<${s.component}`),
        )
        const downEdges = down.flatMap((s) => s.dependsOn.map((d) => `${s.component}<${d.slice(8)}`))
        expect(downEdges.toSorted()).toEqual(upEdges.toSorted())
      }),
    )
  })

  it('deprovisions everything that may be there, the sandbox last, also what the app no longer has', () => {
    fc.assert(
      fc.property(anyApp, anyNames, (app, deployed) => {
        const steps = planRun({ kind: 'deprovision' }, app, { ...BARE, deployed: new Set(deployed) })
        const last = steps.at(-1)
        expect(last?.kind).toBe('sandbox-destroy')
        expect(last?.dependsOn.toSorted()).toEqual(deployed.map((c) => `destroy:${c}`).toSorted())
        expect(steps).toHaveLength(deployed.length + 1)
      }),
    )
  })

  it('leaves the ground alone that somebody else made', () => {
    const state: InstallState = { ...BARE, deployed: new Set(['web']), hasSandbox: false }
    const app = appOf({ web: [] })
    expect(keys(planRun({ kind: 'provision' }, app, state))).toEqual(['agent', 'sync:web', 'deploy:web'])
    expect(keys(planRun({ kind: 'deprovision' }, app, state))).toEqual(['destroy:web'])
  })

  const PROMPT: InstallState = { ...BARE, plannable: new Set(['script']), approval: 'prompt' }
  const links = (steps: PlannedStep[]) => steps.map((s) => [s.key, s.dependsOn])

  it('plans what can be planned once its dependencies are there, and asks before it deploys', () => {
    const app = appOf({ web: ['db'], db: [] })
    expect(links(planRun({ kind: 'deploy', components: ['db', 'web'] }, app, PROMPT))).toEqual([
      ['sync:db', []],
      ['plan:db', ['sync:db']],
      ['approval:db', ['plan:db']],
      ['deploy:db', ['approval:db']],
      ['sync:web', []],
      ['plan:web', ['sync:web', 'deploy:db']],
      ['approval:web', ['plan:web']],
      ['deploy:web', ['approval:web']],
    ])
    const unasked = planRun({ kind: 'deploy', components: ['db'] }, app, {
      ...PROMPT,
      approval: 'approve-all',
    })
    expect(keys(unasked)).toEqual(['sync:db', 'plan:db', 'deploy:db'])
  })

  it('leaves out what is switched off, and lets those above it go on', () => {
    const state = { ...BARE, disabled: new Set(['b']) }
    const steps = planRun(
      { kind: 'deploy', components: ['a', 'b', 'c'] },
      appOf({ a: [], b: ['a'], c: ['b'] }),
      state,
    )
    expect(links(steps)).toEqual([
      ['sync:a', []],
      ['deploy:a', ['sync:a']],
      ['sync:c', []],
      ['deploy:c', ['sync:c', 'deploy:a']],
    ])
  })

  it('looks for drift only where something is deployed that can be planned', () => {
    const state = { ...PROMPT, deployed: new Set(['a']) }
    const steps = planRun({ kind: 'drift', components: ['b', 'a'] }, appOf({ a: [], b: [] }), state)
    expect(links(steps)).toEqual([['plan:a', []]])
  })

  it('puts actions where their triggers say', () => {
    const action = (name: string, ...triggers: AppAction['triggers']): AppAction => ({
      name,
      timeoutSeconds: 60,
      dependencies: [],
      triggers,
      steps: [],
    })
    const app: App = {
      ...appOf({ db: [], web: ['db'] }),
      actions: [
        action('second', { type: 'pre-deploy-component', component: 'db', index: 2 }),
        action('first', { type: 'pre-deploy-component', component: 'db', index: 1 }),
        action('told', { type: 'post-deploy-component', component: 'web' }),
        action('last', { type: 'pre-teardown-component', component: 'db' }),
        action('all', { type: 'post-deploy-all-components' }),
        action('hello', { type: 'post-provision' }),
      ],
    }
    expect(links(planRun({ kind: 'provision' }, app, { ...BARE, hasSandbox: false }))).toEqual([
      ['agent', []],
      ['sync:db', ['agent']],
      ['sync', ['agent']],
      ['action:first/db', ['sync:db', 'sync']],
      ['action:second/db', ['action:first/db', 'sync']],
      ['deploy:db', ['action:second/db']],
      ['sync:web', ['agent']],
      ['deploy:web', ['sync:web', 'deploy:db']],
      ['action:told/web', ['deploy:web', 'sync']],
      ['action:all', ['deploy:db', 'deploy:web', 'sync']],
      ['action:hello', ['agent', 'deploy:db', 'deploy:web', 'sync']],
    ])
    expect(links(planRun({ kind: 'teardown', components: ['db', 'web'] }, app, BARE))).toEqual([
      ['destroy:web', []],
      ['sync', []],
      ['action:last/db', ['destroy:web', 'sync']],
      ['destroy:db', ['action:last/db']],
    ])
    expect(links(planRun({ kind: 'action', action: 'hello' }, app, BARE))).toEqual([
      ['sync', []],
      ['action:hello', ['sync']],
    ])
  })
})
