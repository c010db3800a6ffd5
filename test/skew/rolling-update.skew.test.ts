import { createClient } from '@tenon/protocol'
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkInvariants } from '../../packages/dev-env/src/invariants.ts'
import { buildPrograms, type Programs } from '../../packages/dev-env/src/programs.ts'
import { createInstall } from '../../packages/dev-env/src/scenario.ts'
import { postgresOfTheRun, root } from '../../packages/dev-env/src/scenarios.testing.ts'
import { Stage } from '../../packages/dev-env/src/stage.ts'
import { makeTemplate, type Template } from '../../packages/dev-env/src/template.ts'
import { until } from '../../packages/dev-env/src/until.ts'
import type { ServerHandle } from '../../packages/dev-env/src/world.ts'
import { COMMITS } from './commits.ts'
import { earlierPrograms, whyAbsent } from './earlier.ts'

const EARLIER = COMMITS.beforePrincipals
const [OLD, NEW] = ['older', 'newer'] as const
/** Its deploy waits until it is released for the first time. */
const APP = { web: { deploy: { untilReleased: true } } }
const absent = whyAbsent(root, EARLIER)
/** Each connection of the earlier server, at each of a few statements. */
const STALE_AT_MOST = 40

describe(`a rolling update from ${EARLIER.slice(0, 7)} to today, two servers on one database`, () => {
  let earlier: Programs
  let today: Programs
  let template: Template
  let stage: Stage

  beforeAll(async () => {
    if (absent) return
    earlier = await earlierPrograms(root, EARLIER)
    today = await buildPrograms(root)
    template = await makeTemplate({ dist: earlier.dist, clusterUrl: postgresOfTheRun() })
    stage = new Stage({ dist: earlier.dist })
    await stage.begin(template)
  }, 240_000)
  afterAll(async () => {
    await stage?.end()
    await template?.remove()
    today?.remove()
    earlier?.remove()
  })

  const name = 'deploys pass on both, whichever is asked, and a job outlives the change of its server'
  test.skipIf(absent)(absent ? `${name} (${absent})` : name, { timeout: 240_000 }, async () => {
    try {
      const next = await startTodayWhileAJobRuns()
      await createInstall(stage, APP, NEW)
      await stage.startAgent(NEW, { install: NEW, dist: today.dist, server: next })
      await stage.untilRun('succeeded', NEW)
      const old = stage.server
      for (const install of [OLD, NEW]) await ended(next, await ofEarlier(() => deploy(old, install)))
      await Promise.all([OLD, NEW].map(async (install) => ended(next, await deploy(next, install))))
      await ofEarlier(() => useTokenOf(old, next))
      await ofEarlier(() => useTokenOf(next, old))
      await endOldWhileAJobRuns(next)
      await ended(next, await deploy(next, OLD))
      await checkInvariants(stage, { staysLost: [] })
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${stage.lastWords()}`, { cause: error })
    }
  })

  async function startTodayWhileAJobRuns(): Promise<ServerHandle> {
    await createInstall(stage, APP, OLD)
    await stage.startAgent(OLD, { install: OLD })
    await stage.untilJob('deploy:web', 'running', OLD)
    const next = await stage.startServerBeside(today.dist)
    expect(await stage.sql(`select from schema_migration where name = '0008-principals'`)).toHaveLength(1)
    stage.release('web')
    await stage.untilRun('succeeded', OLD)
    return next
  }

  async function endOldWhileAJobRuns(next: ServerHandle): Promise<void> {
    rmSync(stage.releaseFile('web'))
    const run = await ofEarlier(() => deploy(stage.server, OLD))
    await stage.untilJob('deploy:web', 'running', OLD)
    await stage.replaceServer(next)
    stage.release('web')
    await ended(next, run)
  }
})

/**
 * After a migration each connection of this version fails once at a statement that it had prepared, and does nothing then; later
 * versions plan it anew. Whoever meets that asks again.
 */
async function ofEarlier<T>(ask: () => Promise<T>): Promise<T> {
  for (let left = STALE_AT_MOST; ; left--)
    try {
      return await ask()
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'internal' || left === 0) throw error
    }
}

async function deploy({ client }: ServerHandle, install: string): Promise<string> {
  return (await client.call('deploys.create', { params: { ref: install }, body: {} })).id
}

function ended({ client }: ServerHandle, id: string): Promise<unknown> {
  return until(`the run ${id}`, async () => {
    const { status } = await client.call('runs.get', { params: { id } })
    if (status === 'failed') throw new Error(`the run ${id} failed`)
    return status === 'succeeded'
  })
}

/** Made at one, good at the other. */
async function useTokenOf(one: ServerHandle, other: ServerHandle): Promise<void> {
  const { secret } = await one.client.call('tokens.create', { body: { name: 'late', role: 'viewer' } })
  const { you } = await createClient({ url: other.url, token: secret }).call('server.info', {})
  expect(you).toMatchObject({ name: 'late', role: 'viewer' })
}
