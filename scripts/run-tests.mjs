// One run of vitest with what is said of it afterwards: counts, the slowest tests, and in CI a second try of what failed.
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { collect, fits, retryArguments } from './ci/results.mjs'

const outsideReporter = fileURLToPath(new URL('ci/outside-reporter.mjs', import.meta.url))

/**
 * Errors outside of every test fail a run whatever a second try gives: nobody knows which test to try.
 * `until` is when its stage of CI ends; a second try that would outlast it is left out, by name.
 * @param {{ root: string, args: string[], env: NodeJS.ProcessEnv, retry: boolean, until?: number, stdio?: 'inherit' | 'ignore' }} asked
 * @returns {Promise<{ code: number, passed: number, failed: number, skipped: number, flaky: string[], outside: string[], absent: [string, string][] }>}
 */
export async function runTests({ root, args, env, retry, until = Infinity, stdio = 'inherit' }) {
  const first = await once({ root, args, env, stdio })
  const { failed, tests, counts } = first.results
  for (const line of slowest(tests)) console.log(line)
  const { outside, absent } = first
  const told = { ...counts, flaky: [], outside, absent, code: first.code }
  if (first.code === 0 || !retry || failed.length === 0) return told
  const again = await tryAgain({ root, env, stdio, failed, until })
  const left = failed.length - again.length
  const isGood = left === 0 && outside.length === 0
  return { ...told, flaky: again, failed: left, passed: counts.passed + again.length, code: isGood ? 0 : 1 }
}

/** Each alone, once more. Whatever fails twice fails the run; the rest is named, since a race seen once is a defect. */
async function tryAgain({ root, env, stdio, failed, until }) {
  const flaky = []
  for (const test of failed) {
    const file = relative(root, test.file)
    const title = `${file} > ${test.name ?? 'the whole file'}`
    const msLeft = until - Date.now()
    if (!fits(test, msLeft)) {
      console.log(`\nNot tried again, its stage ends in ${Math.round(msLeft / 1000)} s: ${title}`)
      continue
    }
    console.log(`\nOnce more, alone: ${title}`)
    const { code, results } = await once({ root, env, stdio, args: retryArguments({ ...test, file }) })
    if (code === 0 && results.counts.passed > 0) flaky.push(title)
  }
  return flaky
}

async function once({ root, args, env, stdio }) {
  const folder = mkdtempSync(join(tmpdir(), 'tenon-test-report-'))
  const [json, outside, absent] = ['report.json', 'outside', 'absent'].map((name) => join(folder, name))
  try {
    const reporters = ['default', 'json', outsideReporter].map((name) => `--reporter=${name}`)
    const vitest = join(root, 'node_modules', '.bin', 'vitest')
    const child = spawn(vitest, ['run', ...reporters, `--outputFile.json=${json}`, ...args], {
      cwd: root,
      stdio,
      env: { ...env, TENON_TEST_OUTSIDE: outside, TENON_TEST_ABSENT: absent },
    })
    const code = await ended(child)
    const { errors, broken } = parse(read(outside)) ?? { errors: [], broken: [] }
    return {
      code,
      results: collect(parse(read(json)) ?? { testResults: [], success: false }, broken),
      outside: errors,
      absent: read(absent)
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Empty where vitest ended before it wrote one. */
function read(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

function parse(text) {
  return text === '' ? undefined : JSON.parse(text)
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
