// Pure: what vitest's JSON report says, and what of it is tried again.

/** What a test alone needs besides its own time: programs, a database, an engine are made for it first. */
const SETUP_MS = 60_000

/**
 * A file with a broken part is tried again as a whole: tests behind a hook that failed did not run.
 * @param {string[]} broken
 */
export function collect({ testResults, success, numPendingTests = 0, numTodoTests = 0 }, broken = []) {
  const all = testResults.flatMap((file) => testsOf(file))
  const tests = all.filter(({ status }) => status === 'passed' || status === 'failed')
  const bad = tests.filter(({ status }) => status === 'failed')
  const msOf = (file) => tests.reduce((sum, test) => sum + (test.file === file ? test.ms : 0), 0)
  const failed = [
    ...bad.filter(({ file }) => !broken.includes(file)),
    ...broken.map((file) => ({ file, ms: msOf(file) })),
  ]
  const skipped = numPendingTests + numTodoTests
  return {
    success,
    failed,
    tests,
    counts: { passed: tests.length - bad.length, failed: failed.length, skipped },
  }
}

/** Whether one more try, as long as the first, ends before its stage is taken for hanging. */
export function fits({ ms }, msLeft) {
  return ms + SETUP_MS <= msLeft
}

/** Arguments that make vitest run just this test, or the whole file where no name says which. */
export function retryArguments({ file, name }) {
  return name === undefined ? [file] : [file, '-t', `^${name.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`]
}

function testsOf({ name: file, assertionResults }) {
  return assertionResults.map(({ ancestorTitles, title, status, duration }) => ({
    file,
    name: [...ancestorTitles, title].join(' '),
    status,
    ms: duration ?? 0,
  }))
}
