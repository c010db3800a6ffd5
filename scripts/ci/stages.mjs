// Pure: what CI runs, in which order, how long each may take, and what is left out when time runs short.

/** The machine ends CI after 90 minutes without a word; what ends before that can still say why. */
export const MINUTES_IN_ALL = 84

/** What a whole run is to take: with the tools in their caches, and where they had to be made. Slower passes, and is said. */
export const GOAL = { cached: 40, made: 75 }

/**
 * `limit`: minutes after which the stage hangs. `usual`: minutes it takes on two cores, to know whether it still fits.
 * `making`: instead of `usual` on a machine without anything. `optional`: what it brings can be missing; the tests that
 * need it are skipped by name then. `isGround`: nothing else is tried without it.
 */
export const STAGES = [
  { name: 'Debian packages', command: ['.ci/packages'], limit: 10, usual: 0, making: 1 },
  { name: 'check', command: ['npm', 'run', 'check'], limit: 6, usual: 1, isGround: true },
  {
    name: 'test tools',
    command: ['node', 'scripts/test-tools.mjs'],
    limit: 30,
    usual: 0,
    making: 7,
    optional: true,
  },
  {
    name: 'Kubernetes',
    command: ['node', 'scripts/kubernetes-cluster.mjs', '--build'],
    limit: 20,
    usual: 0,
    making: 5,
    optional: true,
  },
  { name: 'everyday tests', command: ['npm', 'test'], limit: 25, usual: 10 },
  { name: 'engine tests', command: ['npm', 'run', 'test:engines'], limit: 20, usual: 9 },
  { name: 'cluster tests', command: ['npm', 'run', 'test:cluster'], limit: 30, usual: 10 },
  { name: 'versions together', command: ['npm', 'run', 'test:skew'], limit: 20, usual: 7 },
  { name: 'npm start on Node 20, 24, 26', command: ['node', 'scripts/smoke-start.mjs'], limit: 8, usual: 2 },
]

/** Minutes that a stage may take now, or nothing where even its usual time is more than is left. */
export function timeFor({ limit, usual }, minutesGone) {
  const left = MINUTES_IN_ALL - minutesGone
  return usual > left ? undefined : Math.min(limit, left)
}

/**
 * What is said at the very end, most important last.
 * @param {{ name: string, outcome: 'passed' | 'failed' | 'hung' | 'skipped' | 'absent', minutes: number }[]} stages
 * @param {{ passed: number, failed: number, skipped: number, flaky: string[], outside?: string[], absent?: [string, string][] }[]} results
 */
export function summarize(stages, results) {
  const lines = stages.map(
    ({ name, outcome, minutes }) => `${outcome.padEnd(8)} ${minutes.toFixed(1).padStart(5)} min  ${name}`,
  )
  const total = minutesOf(stages)
  const goal = goalOf(stages)
  const sum = (field) => results.reduce((all, result) => all + result[field], 0)
  const leftOut = stages.filter(({ outcome }) => outcome === 'skipped')
  const left = leftOut.length > 0 ? `, ${leftOut.length} stages skipped for time` : ''
  return [
    '',
    ...lines,
    `${total.toFixed(1).padStart(14)} min  in all`,
    ...(total > goal ? [`slower than it should be: ${Math.ceil(total)} minutes (goal ${goal})`] : []),
    ...results.flatMap(({ flaky }) => flaky).map((name) => `flaky: ${name}`),
    ...results.flatMap(({ outside = [] }) => outside).map((error) => `outside of every test: ${error}`),
    ...leftOut.map(({ name }) => `skipped for time: ${name}`),
    ...absentParts(results).map(([name, why]) => `skipped here: what needs ${name} (${why})`),
    `${sum('passed')} passed, ${sum('failed')} failed, ${sum('skipped')} skipped${left}`,
  ]
}

/** The line that is kept of a run that passed: stages that were left out, and what tests lacked. */
export function passedLine(tree, stages, results) {
  const left = stages.filter(({ outcome }) => outcome === 'skipped' || outcome === 'absent')
  const names = [
    ...left.map(({ name }) => name),
    ...absentParts(results).map(([name]) => `what needs ${name}`),
  ]
  const skipped = names.length > 0 ? ` skipped ${names.join(', ')}` : ''
  return `${tree} ${Math.round(minutesOf(stages))} min${skipped}\n`
}

function minutesOf(stages) {
  return stages.reduce((sum, { minutes }) => sum + minutes, 0)
}

/** A look into a full cache takes seconds; where a stage takes longer, it made what it looked for. */
function goalOf(stages) {
  const makers = STAGES.filter(({ making }) => making !== undefined).map(({ name }) => name)
  const hasMade = stages.some(({ name, minutes }) => makers.includes(name) && minutes > 1)
  return hasMade ? GOAL.made : GOAL.cached
}

/** Each once, with the reason that was given last. */
function absentParts(results) {
  return [...new Map(results.flatMap(({ absent = [] }) => absent))]
}
