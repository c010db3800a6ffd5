import { expect, it } from 'vitest'
import type { App } from './app.ts'
import { buildables } from './buildable.ts'

const git = { kind: 'git', repo: 'acme/ops', ref: 'main', directory: '.' } as const
const action = { timeoutSeconds: 60, dependencies: [], triggers: [] }
const app: App = {
  name: 'shop',
  displayName: 'Shop',
  description: '',
  components: [
    { name: 'web', type: 'script', dependencies: [], config: { a: 1 }, source: { kind: 'folder' } },
    {
      name: 'db',
      type: 'terraform_module',
      dependencies: [],
      config: {},
      source: git,
      settings: { images: ['x:1'], buildTimeoutSeconds: 9 },
    },
  ],
  actions: [
    { ...action, name: 'plain', steps: [{ name: 'a', command: 'ls' }] },
    {
      ...action,
      name: 'web',
      steps: [
        { name: 'a', inlineContents: 'ls' },
        { name: 'b', command: './b', env: { A: '1' }, source: git },
      ],
    },
  ],
}

it('has builds of all components, and of actions with steps in repositories, under names that cannot meet', () => {
  expect(buildables(app)).toEqual([
    {
      name: 'web',
      component: 'web',
      type: 'script',
      path: 'web',
      config: { a: 1 },
      source: { kind: 'folder' },
      images: [],
    },
    {
      name: 'db',
      component: 'db',
      type: 'terraform_module',
      path: 'db',
      config: {},
      source: git,
      images: ['x:1'],
      timeoutSeconds: 9,
    },
    {
      name: 'action:web',
      component: null,
      type: 'action',
      path: 'actions/web',
      config: { steps: [{ name: 'b', source: git }] },
      source: null,
      images: [],
    },
  ])
})

it('does not make another thing to build of an action whose command or environment changed', () => {
  const changed = structuredClone(app)
  changed.actions![1]!.steps[1] = { name: 'b', command: './c', source: git }
  expect(buildables(changed)).toEqual(buildables(app))
})
