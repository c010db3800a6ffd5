// All that CI runs, one stage after the other: what is timed or killed in one is not starved by another. Ends with each stage's
// time, what was flaky, and the counts.
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runStage } from './ci/run-stage.mjs'
import { STAGES, passedLine, summarize, timeFor } from './ci/stages.mjs'
import { treeOf } from './ci/tree.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = mkdtempSync(join(tmpdir(), 'tenon-ci-'))
const resultsFile = join(folder, 'results')
const began = Date.now()
const env = { ...process.env, CI: 'true', TENON_TEST_RESULTS: resultsFile }
try {
  const stages = await runStages()
  const results = readResults()
  for (const line of summarize(stages, results)) console.log(line)
  const isGood = stages.every(({ outcome }) => outcome !== 'failed' && outcome !== 'hung')
  if (isGood) remember(stages, results)
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
    const outcome = minutes === undefined ? 'skipped' : await runStage(stage, { cwd: root, env, minutes })
    done.push({ name: stage.name, outcome, minutes: minutesSince(from) })
    console.log(`=== ${stage.name}: ${outcome} after ${minutesSince(from).toFixed(1)} min`)
    if (outcome === 'hung') console.log(`It was to end within ${minutes.toFixed(0)} minutes.`)
    if (stage.isGround && outcome !== 'passed') break
  }
  return done
}

function readResults() {
  if (!existsSync(resultsFile)) return []
  const lines = readFileSync(resultsFile, 'utf8').trimEnd().split('\n')
  return lines.map((line) => JSON.parse(line))
}

function remember(stages, results) {
  const kept = join(homedir(), '.cache/tenon-ci')
  mkdirSync(kept, { recursive: true })
  const tree = treeOf(root, join(folder, 'index'))
  appendFileSync(join(kept, 'passed'), passedLine(tree, stages, results))
}

function minutesSince(moment) {
  return (Date.now() - moment) / 60_000
}
