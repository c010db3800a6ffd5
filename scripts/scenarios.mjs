// node scripts/scenarios.mjs [--times 20] [--only NAME] [--at-once 4]: plays each scenario as often as asked, and shows a table.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ensureInstalled } from './ensure-installed.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '20' },
    only: { type: 'string' },
    'at-once': { type: 'string', default: '4' },
  },
})
ensureInstalled()
const folder = mkdtempSync(join(tmpdir(), 'tenon-scenarios-'))
try {
  const results = await play()
  for (const line of table(results)) console.log(line)
  for (const { name, failures } of results)
    if (failures.length > 0) console.log(`\n${name}\n${failures[0].slice(0, 6000)}`)
  process.exitCode = results.length > 0 && results.every(({ failures }) => failures.length === 0) ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function play() {
  const report = join(folder, 'report.json')
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
  const args = ['run', 'packages/dev-env/src/scenarios.test.ts', '--reporter=json', `--outputFile=${report}`]
  if (values.only) args.push('-t', values.only.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  const child = spawn(process.execPath, [vitest, ...args], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, TENON_SCENARIO_TIMES: values.times, TENON_SCENARIOS_AT_ONCE: values['at-once'] },
  })
  await once(child, 'exit')
  const tests = JSON.parse(readFileSync(report, 'utf8')).testResults.flatMap((file) => {
    if (file.message) console.error(file.message)
    return file.assertionResults
  })
  return collect(tests.filter(({ status }) => status === 'passed' || status === 'failed'))
}

function collect(tests) {
  const byName = new Map()
  for (const { title, duration, failureMessages } of tests) {
    const name = title.replace(/ #\d+$/, '')
    const entry = byName.get(name) ?? { name, seconds: [], failures: [] }
    entry.seconds.push((duration ?? 0) / 1000)
    if (failureMessages.length > 0) entry.failures.push(failureMessages[0])
    byName.set(name, entry)
  }
  return [...byName.values()]
}

function table(results) {
  const width = Math.max(8, ...results.map(({ name }) => name.length))
  const row = (name, passed, median, longest) =>
    `${name.padEnd(width)}  ${passed.padStart(7)}  ${median.padStart(8)}  ${longest.padStart(8)}`
  const lines = results.map(({ name, seconds, failures }) => {
    const sorted = seconds.toSorted((a, b) => a - b)
    const median = sorted[Math.floor(sorted.length / 2)]
    const passed = `${seconds.length - failures.length}/${seconds.length}`
    return row(name, passed, `${median.toFixed(1)} s`, `${sorted.at(-1).toFixed(1)} s`)
  })
  return [row('SCENARIO', 'PASSED', 'MEDIAN', 'LONGEST'), ...lines]
}
