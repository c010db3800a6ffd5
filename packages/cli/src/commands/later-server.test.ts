import { afterEach, beforeEach, expect, it } from 'vitest'
import { startApi, type Api } from '../testing/api-server.ts'
import { createHome, type Home } from '../testing/run-cli.ts'
import { agent, build, job, run, serverInfo, step, testId, token } from '../testing/values.ts'

let api: Api
let home: Home

const page = <T>(...items: T[]) => ({ items, next: null })
const RUN = testId('run')

/** A server that knows kinds, states and roles which this CLI does not. */
beforeEach(async () => {
  home = await createHome()
  const steps = [step('deploy:web', { status: 'pondering' })]
  const you = { ...serverInfo().you, role: 'auditor' }
  api = await startApi({
    'runs.list': () => page(run({ kind: 'rehearse', status: 'pondering' })),
    'runs.get': () => run({ kind: 'rehearse', status: 'pondering', steps }),
    'jobs.list': () => page(job({ kind: 'scan', status: 'pondering', role: 'overseer' })),
    'builds.list': () => page(build({ status: 'pondering' })),
    'agents.list': () => page(agent({ role: 'overseer', status: 'pondering' })),
    'server.info': () => serverInfo({ you }),
    'tokens.list': () => page(token({ role: 'auditor' })),
  })
})
afterEach(() => api.stop())

it.each([
  [['runs', 'list'], /rehearse +acme +pondering/],
  [['runs', 'show', RUN], /rehearse[^]*pondering[^]*\? +deploy:web +pondering/],
  [['jobs', 'list'], /scan +acme +web +pondering/],
  [['builds', 'list'], /pondering/],
  [['agent', 'list'], /overseer/],
  [['tokens', 'list'], /auditor/],
])('%s shows what a later server says, in its words', async (args, words) => {
  const { code, stdout, stderr } = await home.run(args, { env: api.env })
  expect(stderr).toBe('')
  expect(stdout).toMatch(words)
  expect(code).toBe(0)
})

it('doctor does not ask what a role of a later server may', async () => {
  const { stdout } = await home.run(['doctor'], { env: api.env })
  expect(stdout).toMatch(/token +.*auditor \(when it expires, only an owner can see\)/)
})
