// Pure: what a soak does, which of it is asked for, and what is said of it at the end.

const KILLS = ['packages/oci/src/kill.test.ts', 'packages/dev-env/src/sync-deaths.test.ts']

/** `busy`: so many cores have something else to do meanwhile. */
export const TASKS = [
  { name: 'scenarios', command: ['node', 'scripts/scenarios.mjs', '--times', '20'] },
  { name: 'kill-points', command: ['npm', 'test', '--', ...KILLS], env: { TENON_KILL_POINTS: 'all' } },
  { name: 'many-jobs', command: ['npm', 'run', 'test:engines'], env: { TENON_MANY_JOBS: '100' } },
  { name: 'under-load', command: ['npm', 'test'], busy: 2 },
  { name: 'engines-under-load', command: ['npm', 'run', 'test:engines'], busy: 2 },
]

/**
 * @param {{ minutes: string, only?: string, test?: string, t?: string }} asked
 * @returns {{ tasks: typeof TASKS, minutes: number } | { error: string }}
 */
export function readAsked({ minutes: text, only, test, t }) {
  const minutes = Number(text)
  if (!(minutes > 0)) return { error: `--minutes takes a number above 0, not ${text}.` }
  if (test !== undefined) {
    const pattern = t === undefined ? [] : ['-t', t]
    return {
      minutes,
      tasks: [{ name: 'test', command: ['npx', 'vitest', 'run', test, ...pattern], busy: 2 }],
    }
  }
  const tasks = only === undefined ? TASKS : TASKS.filter(({ name }) => name === only)
  if (tasks.length > 0) return { minutes, tasks }
  return { error: `There is no task ${only}. Tasks: ${TASKS.map(({ name }) => name).join(', ')}.` }
}

/** @param {[string, { passed: number, failed: number, cut: number }][]} tallies */
export function summarizeSoak(tallies) {
  const width = Math.max(...tallies.map(([name]) => name.length))
  const lines = tallies.map(
    ([name, { passed, failed, cut }]) =>
      `${name.padEnd(width)} ${passed} passed, ${failed} failed${cut > 0 ? `, ${cut} cut off by the end` : ''}`,
  )
  return { lines, code: tallies.some(([, { failed }]) => failed > 0) ? 1 : 0 }
}
