import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildPrograms, type Programs } from '../../packages/dev-env/src/programs.ts'
import { createInstall } from '../../packages/dev-env/src/scenario.ts'
import { postgresOfTheRun, root } from '../../packages/dev-env/src/scenarios.testing.ts'
import { INSTALL, Stage } from '../../packages/dev-env/src/stage.ts'
import { makeTemplate, type Template } from '../../packages/dev-env/src/template.ts'
import { until } from '../../packages/dev-env/src/until.ts'
import { COMMITS } from './commits.ts'
import { earlierPrograms, whyAbsent } from './earlier.ts'

const EARLIER = COMMITS.oldest
const absent = whyAbsent(root, EARLIER)

describe(`today's server, and an agent of ${EARLIER.slice(0, 7)} that keeps no job to its network`, () => {
  let earlier: Programs
  let today: Programs
  let template: Template
  let stage: Stage

  beforeAll(async () => {
    if (absent) return
    earlier = await earlierPrograms(root, EARLIER)
    today = await buildPrograms(root)
    template = await makeTemplate({ dist: today.dist, clusterUrl: postgresOfTheRun() })
    stage = new Stage({ dist: today.dist })
    await stage.begin(template)
  }, 240_000)
  afterAll(async () => {
    await stage?.end()
    await template?.remove()
    today?.remove()
    earlier?.remove()
  })

  const name = 'a job with declared egress waits, says for which version, and runs once the agent is updated'
  test.skipIf(absent)(absent ? `${name} (${absent})` : name, { timeout: 240_000 }, async () => {
    try {
      await createInstall(stage, {
        web: { settings: () => ({ egress: [{ host: 'api.example.com', port: 443 }] }) },
        api: {},
      })
      await stage.startAgent(undefined, { dist: earlier.dist })
      const waiting = await until('the deploy to wait', async () => (await stage.job('deploy:web'))?.waiting)
      expect(waiting).toMatchObject({
        code: 'agent_too_old',
        message: 'No connected agent can do it: it needs agent ≥ 0.3, which has job-networks.',
        remedy: `Update the agent of install ${INSTALL}.`,
      })
      await stage.untilJob('deploy:api', 'succeeded')
      await stage.killAgent()
      await stage.startAgent(undefined, { dist: today.dist })
      await stage.untilRun('succeeded')
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${stage.lastWords()}`, { cause: error })
    }
  })
})
