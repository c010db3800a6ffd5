// `npm start` on each version of Node that is promised, one after the other; ends with 1 where one does not do.
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodesHere, smoke } from './ci/smoke.mjs'
import { report } from './run-tests.mjs'
import { toolsFolder } from './test-tools.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const results = await smoke({ root, nodes: nodesHere(toolsFolder) })
if (results.skipped > 0) console.log(`${results.skipped} versions of Node skipped`)
report(results)
process.exitCode = results.failed > 0 ? 1 : 0
