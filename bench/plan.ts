import { planRun, type App, type Component, type InstallState } from '@tenon/core'
import { parseTemplate, renderTemplate } from '@tenon/go-template'
import { judge, median, table, type Measure } from './report.ts'

/** Planning one change for a whole fleet, and rendering templates. Time is processor time: the machine may be busy. */
const COMPONENTS = 200
const FLEET = 5000
const ROUNDS = 5

const components = Array.from({ length: COMPONENTS }, (_, i): Component => ({
  name: `c${i}`,
  type: i % 2 === 0 ? 'terraform_module' : 'helm_chart',
  // Wide and deep: each stands on up to three before it.
  dependencies: [...new Set([i - 1, i >> 1, i - 17].filter((d) => d >= 0 && d % 3 !== 0))].map(
    (d) => `c${d}`,
  ),
  config: {
    values: { url: `{{ .nuon.components.c${i >> 1}.outputs.url }}`, size: '{{ .nuon.inputs.inputs.size }}' },
  },
  settings: { toggleable: i % 10 === 0, maxAutoRetries: 3 },
}))
const app: App = { name: 'bench', displayName: 'Bench', description: '', components }
const all = components.map(({ name }) => name)

/** No two installs are alike: other switches, other parts deployed. */
function stateOf(install: number): InstallState {
  return {
    deployed: new Set(all.filter((_, i) => (i + install) % 7 !== 0)),
    hasSandbox: true,
    keepsSecrets: false,
    disabled: new Set(all.filter((_, i) => i % 10 === 0 && (i + install) % 3 === 0)),
    plannable: new Set(['terraform_module', 'helm_chart']),
    approval: install % 2 === 0 ? 'prompt' : 'approve-all',
  }
}

function cpuMs(work: () => void): number {
  const start = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}

function planFleet(installs: number): number {
  const states = Array.from({ length: installs }, (_, i) => stateOf(i))
  let steps = 0
  const ms = cpuMs(() => {
    for (const state of states) steps += planRun({ kind: 'deploy', components: all }, app, state).length
  })
  if (steps < installs * COMPONENTS) throw new Error(`only ${steps} steps were planned`)
  return ms / installs
}

const text = JSON.stringify(app)
function readFleet(installs: number): number {
  let read = 0
  const ms = cpuMs(() => {
    for (let i = 0; i < installs; i++) read += (JSON.parse(text) as App).components.length
  })
  if (read !== installs * COMPONENTS) throw new Error('not all was read')
  return ms / installs
}

const rounds = <T>(work: () => T): T[] => Array.from({ length: ROUNDS }, work)
planFleet(200)
const whole = median(rounds(() => planFleet(FLEET)))
const tenth = median(rounds(() => planFleet(FLEET / 10)))
const reading = median(rounds(() => readFleet(FLEET / 10)))

const EXPRESSIONS = 10_000
const data = {
  nuon: { components: { db: { outputs: { url: 'postgres://x' } } }, inputs: { inputs: { size: 3 } } },
}
const template = parseTemplate(
  '{{ .nuon.components.db.outputs.url }} {{ .nuon.inputs.inputs.size }}\n'.repeat(EXPRESSIONS / 2),
)
renderTemplate(template, data)
const rendering = median(rounds(() => cpuMs(() => renderTemplate(template, data))))
const joining = median(
  rounds(() =>
    cpuMs(() => {
      let joined = ''
      for (let i = 0; i < EXPRESSIONS / 2; i++)
        joined += `${data.nuon.components.db.outputs.url} ${data.nuon.inputs.inputs.size}\n`
      if (joined.length === 0) throw new Error('nothing was joined')
    }),
  ),
)
const perSecond = (ms: number) => Math.round((EXPRESSIONS * 1000) / Math.max(ms, 0.001))

const measures: Measure[] = [
  {
    name: `plan a change, ${COMPONENTS} components, ${FLEET} installs`,
    measured: `${whole.toFixed(3)} ms per install`,
    baseline: `${reading.toFixed(3)} ms to read the app as JSON`,
    value: whole,
    unit: ' ms',
    goal: { most: 2 },
    note: `${(whole / reading).toFixed(1)} times the baseline; processor time`,
  },
  {
    name: 'growth with the fleet',
    measured: `${whole.toFixed(3)} ms per install of ${FLEET}`,
    baseline: `${tenth.toFixed(3)} ms per install of ${FLEET / 10}`,
    value: whole / tenth,
    unit: '×',
    goal: { most: 1.3 },
    note: 'the same time per install is linear growth',
  },
  {
    name: 'render simple expressions',
    measured: `${perSecond(rendering)} per second`,
    baseline: `${perSecond(joining)} per second by joining strings`,
    value: perSecond(rendering),
    unit: '/s',
    goal: { least: 50_000 },
    note: 'processor time',
  },
]
console.log(table(measures.map(judge)))
