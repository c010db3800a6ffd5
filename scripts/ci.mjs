// All that CI runs, one stage after the other: what is timed or killed in one is not starved by another. Ends with each stage's
// time, what was flaky, and the counts.
import { execFileSync, spawn } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { STAGES, passedLine, summarize, timeFor } from './ci/stages.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = mkdtempSync(join(tmpdir(), 'tenon-ci-'))
const resultsFile = join(folder, 'results')
const began = Date.now()
try {
  const stages = await runStages()
  for (const line of summarize(stages, readResults())) console.log(line)
  const isGood = stages.every(({ outcome }) => outcome !== 'failed' && outcome !== 'hung')
  if (isGood) remember(stages)
  process.exitCode = isGood ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** After a stage that failed the others still run: one look at the end tells all there is to mend. */
async function runStages() {
  const done = []
  for (const stage of STAGES) {
    const minutes = timeFor(stage, minutesSince(began))
    const from = Date.now()
    console.log(`\n=== ${stage.name} (at ${minutesSince(began).toFixed(1)} min)`)
    const outcome = minutes === undefined ? 'skipped' : await runStage(stage, minutes)
    done.push({ name: stage.name, outcome, minutes: minutesSince(from) })
    console.log(`=== ${stage.name}: ${outcome} after ${minutesSince(from).toFixed(1)} min`)
    if (stage.name === 'check' && outcome !== 'passed') break
  }
  return done
}

async function runStage({ command: [program, ...args], optional }, minutes) {
  const env = { ...process.env, CI: 'true', TENON_TEST_RESULTS: resultsFile }
  // A group of its own, so that what hangs ends with all that it started.
  const child = spawn(program, args, {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
    detached: true,
  })
  let hung = false
  const alarm = setTimeout(() => {
    hung = true
    console.log(`It hangs: it was to end within ${minutes.toFixed(0)} minutes.`)
    endGroup(child.pid, 'SIGTERM')
    setTimeout(() => endGroup(child.pid, 'SIGKILL'), 20_000).unref()
  }, minutes * 60_000)
  const code = await new Promise((settle) => {
    child.on('error', () => settle(127))
    child.on('close', (status) => settle(status ?? 1))
  })
  clearTimeout(alarm)
  if (code === 0) return 'passed'
  if (optional) return 'absent'
  return hung ? 'hung' : 'failed'
}

function endGroup(pid, signal) {
  try {
    process.kill(-pid, signal)
  } catch {
    // It ended by itself meanwhile.
  }
}

function readResults() {
  if (!existsSync(resultsFile)) return []
  const lines = readFileSync(resultsFile, 'utf8').trimEnd().split('\n')
  return lines.map((line) => JSON.parse(line))
}

function remember(stages) {
  const kept = join(homedir(), '.cache/tenon-ci')
  mkdirSync(kept, { recursive: true })
  const tree = execFileSync('git', ['rev-parse', 'HEAD^{tree}'], { cwd: root, encoding: 'utf8' }).trim()
  appendFileSync(join(kept, 'passed'), passedLine(tree, stages))
}

function minutesSince(moment) {
  return (Date.now() - moment) / 60_000
}
