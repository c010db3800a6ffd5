import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { whyIdle } from './action-triggers.ts'
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
  keepsSecrets: fc.boolean(),
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
  keepsSecrets: false,
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

  it('keeps secrets in the cluster before anything is deployed, and takes them out after everything is gone', () => {
    const secret = {
      displayName: '',
      description: '',
      required: true,
      autoGenerate: false,
      format: '' as const,
    }
    const app: App = {
      ...appOf({ web: ['db'], db: [] }),
      secrets: [{ ...secret, name: 'key', kubernetes: { namespace: 'shop', name: 'key' } }],
    }
    const up = planRun({ kind: 'provision' }, app, BARE)
    expect(up.map((s) => [s.key, s.dependsOn])).toEqual([
      ['sandbox', []],
      ['agent', ['sandbox']],
      ['sync', ['agent']],
      ['secrets', ['agent', 'sync']],
      ['sync:db', ['agent']],
      ['deploy:db', ['sync:db', 'secrets']],
      ['sync:web', ['agent']],
      ['deploy:web', ['sync:web', 'deploy:db', 'secrets']],
    ])
    const state = { ...BARE, deployed: new Set(['web', 'db']) }
    expect(keys(planRun({ kind: 'teardown', components: ['web'] }, app, state))).toEqual(['destroy:web'])
    const down = planRun({ kind: 'deprovision' }, app, state)
    expect(down.map((s) => [s.key, s.dependsOn])).toEqual([
      ['destroy:web', []],
      ['destroy:db', ['destroy:web']],
      ['sync', []],
      ['secrets-destroy', ['destroy:web', 'destroy:db', 'sync']],
      ['sandbox-destroy', ['destroy:web', 'destroy:db', 'secrets-destroy']],
    ])
    const all = planRun({ kind: 'teardown', components: ['web', 'db'] }, app, state)
    expect(keys(all).at(-1)).toBe('secrets-destroy')
    expect(planRun({ kind: 'deploy', components: [] }, app, state)).toEqual([])
  })

  it('takes secrets that the app no longer has out of the cluster, once nothing reads them', () => {
    const app = appOf({ web: ['db'], db: [] })
    const state = { ...BARE, deployed: new Set(['web', 'db']), keepsSecrets: true }
    const next = planRun({ kind: 'deploy', components: ['db', 'web'] }, app, state)
    expect(next.at(-1)).toMatchObject({
      key: 'secrets-destroy',
      dependsOn: ['deploy:db', 'deploy:web', 'sync'],
    })
    const some = planRun({ kind: 'deploy', components: ['web'] }, app, state)
    expect(keys(some)).toEqual(['sync:web', 'deploy:web'])
    const down = planRun({ kind: 'deprovision' }, app, { ...state, hasSandbox: false })
    expect(keys(down)).toEqual(['destroy:web', 'destroy:db', 'sync', 'secrets-destroy'])
    expect(keys(planRun({ kind: 'teardown', components: ['web'] }, app, state))).toEqual(['destroy:web'])
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

  it('asks also before it deploys what makes no plans', () => {
    const state: InstallState = { ...PROMPT, plannable: new Set() }
    const steps = planRun(
      { kind: 'deploy', components: ['db', 'web'] },
      appOf({ web: ['db'], db: [] }),
      state,
    )
    expect(links(steps)).toEqual([
      ['sync:db', []],
      ['approval:db', ['sync:db']],
      ['deploy:db', ['approval:db']],
      ['sync:web', []],
      ['approval:web', ['sync:web', 'deploy:db']],
      ['deploy:web', ['approval:web']],
    ])
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

  it('removes what the app dropped first, each by its own version, though versions contradict each other', () => {
    const app = appOf({ db: [], web: ['db'] })
    const old = appOf({ db: [], queue: ['db'], flag: ['queue'], web: ['db'] })
    const state = { ...BARE, hasSandbox: false, deployed: new Set(['db', 'web', 'queue', 'flag']) }
    const dropped = new Map([
      ['queue', old],
      ['flag', old],
    ])
    expect(links(planRun({ kind: 'deprovision' }, app, { ...state, dropped }))).toEqual([
      ['destroy:flag', []],
      ['destroy:queue', ['destroy:flag']],
      ['destroy:web', ['destroy:flag', 'destroy:queue']],
      ['destroy:db', ['destroy:web']],
    ])
    const turned = new Map([...dropped, ['queue', appOf({ flag: [], queue: ['flag'] })] as const])
    expect(links(planRun({ kind: 'deprovision' }, app, { ...state, dropped: turned })).slice(0, 2)).toEqual([
      ['destroy:queue', []],
      ['destroy:flag', ['destroy:queue']],
    ])
  })

  const action = (name: string, ...triggers: AppAction['triggers']): AppAction => ({
    name,
    timeoutSeconds: 60,
    dependencies: [],
    triggers,
    steps: [],
  })

  it('starts actions around everything, and gives each step a name of its own', () => {
    const all = (...types: string[]) => types.map((type) => ({ type }))
    const app: App = {
      ...appOf({ db: [] }),
      actions: [
        action('open', ...all('pre-deploy-all-components', 'pre-teardown-all-components')),
        action('tell', ...all('post-deploy-all-components', 'post-provision', 'manual')),
        action(
          'check',
          { type: 'pre-deploy-component', component: 'db' },
          { type: 'post-deploy-component', component: 'db' },
          { type: 'post-teardown-component', component: 'db' },
        ),
        action('leave', ...all('pre-deprovision')),
        action('swept', ...all('post-teardown-all-components')),
        action('typed', ...all('pre-update-inputs', 'pre-update-inputs')),
        action('never', ...all('cron', 'pre-provision')),
      ],
    }
    const keys = (decision: Decision, state = BARE) => links(planRun(decision, app, state))
    expect(keys({ kind: 'provision' }, { ...BARE, hasSandbox: false })).toEqual([
      ['agent', []],
      ['sync', ['agent']],
      ['action:open@pre-deploy-all-components', ['agent', 'sync']],
      ['sync:db', ['agent']],
      ['action:check/db@pre-deploy-component', ['sync:db', 'action:open@pre-deploy-all-components', 'sync']],
      ['deploy:db', ['action:check/db@pre-deploy-component']],
      ['action:check/db@post-deploy-component', ['deploy:db', 'sync']],
      ['action:tell@post-deploy-all-components', ['deploy:db', 'sync']],
      ['action:tell@post-provision', ['agent', 'deploy:db', 'sync']],
    ])
    expect(keys({ kind: 'deprovision' }, { ...BARE, deployed: new Set(['db']) })).toEqual([
      ['sync', []],
      ['action:leave', ['sync']],
      ['action:open@pre-teardown-all-components', ['action:leave', 'sync']],
      ['destroy:db', ['action:open@pre-teardown-all-components']],
      ['action:check/db@post-teardown-component', ['destroy:db', 'sync']],
      ['action:swept', ['action:check/db@post-teardown-component', 'sync']],
      ['sandbox-destroy', ['destroy:db', 'action:swept']],
    ])
    expect(keys({ kind: 'deploy', components: [], inputsChanged: true })).toEqual([
      ['sync', []],
      ['action:typed', ['sync']],
    ])
    expect(keys({ kind: 'deploy', components: [] })).toEqual([])
  })

  it('says of every trigger whether anything acts on it', () => {
    expect(['manual', 'cron', 'pre-deploy-component', 'post-update-inputs'].map(whyIdle)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ])
    for (const trigger of ['pre-provision', 'role-enabled', 'anything'])
      expect(whyIdle(trigger)).toMatch(/\S/)
  })

  it('puts actions where their triggers say', () => {
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
