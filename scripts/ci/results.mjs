// Pure: what vitest's JSON report says, and what of it is tried again.

/** More than so many failures are no race: the code is broken, and trying again only takes time. */
const AT_MOST_AGAIN = 8

/** @returns what counts of one report of vitest */
export function collect({ testResults, success, numPendingTests = 0, numTodoTests = 0 }) {
  const all = testResults.flatMap((file) => testsOf(file))
  const ran = all.filter(({ status }) => status === 'passed' || status === 'failed')
  const failed = [
    ...ran.filter(({ status }) => status === 'failed'),
    ...testResults.filter(brokeBeforeItsTests).map(({ name }) => ({ file: name })),
  ]
  const passed = ran.length - ran.filter(({ status }) => status === 'failed').length
  const skipped = numPendingTests + numTodoTests
  return { success, failed, tests: ran, counts: { passed, failed: failed.length, skipped } }
}

/** An error outside of every test says nothing of where it came from: it is not tried again. */
export function isWorthRetrying({ failed }) {
  return failed.length > 0 && failed.length <= AT_MOST_AGAIN
}

/** Arguments that make vitest run just this test, or the whole file where none of its tests ran. */
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

function brokeBeforeItsTests({ status, assertionResults }) {
  return status === 'failed' && assertionResults.every((test) => test.status !== 'failed')
}
