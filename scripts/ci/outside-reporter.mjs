// A reporter of vitest, for what its JSON report leaves out: errors that belong to no test, and files with a hook that failed.
import { writeFileSync } from 'node:fs'

export default class OutsideReporter {
  onTestRunEnd(modules, unhandled) {
    const errors = unhandled.map(({ name = 'Error', message }) => `${name}: ${message}`.split('\n')[0])
    const broken = modules.filter(isBroken).map(({ moduleId }) => moduleId)
    writeFileSync(process.env.TENON_TEST_OUTSIDE, JSON.stringify({ errors, broken }))
  }
}

function isBroken(module) {
  return [module, ...module.children.allSuites()].some((part) => part.errors().length > 0)
}
