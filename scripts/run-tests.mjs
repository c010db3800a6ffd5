// One run of vitest with what is said of it afterwards: counts, the slowest tests, and in CI a second try of what failed.
import { spawn } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { collect, isWorthRetrying, retryArguments } from './ci/results.mjs'

/**
 * @param {{ root: string, args: string[], env: NodeJS.ProcessEnv, retry: boolean, stdio?: 'inherit' | 'ignore' }} asked
 * @returns {Promise<{ code: number, passed: number, failed: number, skipped: number, flaky: string[] }>}
 */
export async function runTests({ root, args, env, retry, stdio = 'inherit' }) {
  const first = await once({ root, args, env, stdio })
  const failed = first.results.failed.map((test) => ({ ...test, file: relative(root, test.file) }))
  for (const line of slowest(first.results.tests)) console.log(line)
  const counts = { ...first.results.counts, flaky: [] }
  if (first.code === 0 || !retry || !isWorthRetrying(first.results)) return { ...counts, code: first.code }
  return { ...counts, ...(await tryAgain({ root, env, stdio, failed, passed: counts.passed })) }
}

/** Each alone, once more. Whatever fails twice fails the run; the rest is named, since a race seen once is a defect. */
async function tryAgain({ root, env, stdio, failed, passed }) {
  const flaky = []
  for (const test of failed) {
    console.log(`\nOnce more, alone: ${test.file}${test.name ? ` > ${test.name}` : ''}`)
    const { code, results } = await once({ root, env, stdio, args: retryArguments(test) })
    if (code === 0 && results.counts.passed > 0) flaky.push(`${test.file} > ${test.name ?? 'the whole file'}`)
  }
  const left = failed.length - flaky.length
  return { flaky, failed: left, passed: passed + flaky.length, code: left === 0 ? 0 : 1 }
}

async function once({ root, args, env, stdio }) {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-test-report-'))
  const report = join(folder, 'report.json')
  try {
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
    const vitest = join(root, 'node_modules', '.bin', 'vitest')
    const code = await ended(spawn(vitest, ['run', ...reporters, ...args], { cwd: root, stdio, env }))
    return { code, results: collect(read(report)) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function read(report) {
  try {
    return JSON.parse(readFileSync(report, 'utf8'))
  } catch {
    return { testResults: [], success: false }
  }
}

function ended(child) {
  return new Promise((done) => {
    child.on('error', () => done(127))
    child.on('close', (code) => done(code ?? 1))
  })
}

function slowest(tests) {
  if (tests.length < 20) return []
  const ten = tests.toSorted((a, b) => b.ms - a.ms).slice(0, 10)
  return [
    'The ten slowest:',
    ...ten.map(({ name, ms }) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${name}`),
  ]
}

/** For who runs several of these: a line of JSON in the file that TENON_TEST_RESULTS names. */
export function report(results) {
  const file = process.env.TENON_TEST_RESULTS
  if (file) appendFileSync(file, `${JSON.stringify(results)}\n`)
  for (const name of results.flaky) console.log(`flaky: ${name}`)
}
