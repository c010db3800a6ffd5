// npm run soak [-- --minutes 60]: what is only seen when it is done often, or while others use the machine. Each task in turn, over
// and over until the time is up; the first round always whole unless the time ends it.
//   --only NAME        one of the tasks
//   --test FILE [-t X] instead of them: one test, over and over, while both cores are busy
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { readAsked } from './ci/soak-tasks.mjs'
import { soak } from './ci/soak.mjs'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    only: { type: 'string' },
    test: { type: 'string' },
    t: { type: 'string', short: 't' },
  },
})
const asked = readAsked(values)
if ('error' in asked) {
  console.error(asked.error)
  process.exit(2)
}
const { lines, code } = await soak({ ...asked, cwd: dirname(dirname(fileURLToPath(import.meta.url))) })
for (const line of lines) console.log(line)
process.exitCode = code
