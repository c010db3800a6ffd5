import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, test, vi } from 'vitest'
import { buildPrograms } from './programs.ts'
import { playScenario, type Ground } from './scenario.ts'
import { playAllDead } from './scenarios/all-dead.ts'
import { playTampering, tamperings } from './scenarios/audit-tampering.ts'
import { cancels } from './scenarios/cancels.ts'
import { databases } from './scenarios/databases.ts'
import { deaths } from './scenarios/deaths.ts'
import { handshakes } from './scenarios/handshakes.ts'
import { holds } from './scenarios/holds.ts'
import { identities } from './scenarios/identities.ts'
import { jobEnds } from './scenarios/job-ends.ts'
import { leases } from './scenarios/leases.ts'
import { manifests } from './scenarios/manifests.ts'
import { makeTemplate } from './template.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const times = Number(process.env['TENON_SCENARIO_TIMES'] ?? 1)
const clusterUrl = process.env['TENON_TEST_POSTGRES_URL']

vi.setConfig({ maxConcurrency: Number(process.env['TENON_SCENARIOS_AT_ONCE'] ?? 4) })

let ground: Ground
let removePrograms: () => void = () => undefined

beforeAll(async () => {
  if (!clusterUrl) throw new Error('the run has no PostgreSQL: postgres/vitest-global-setup.ts starts it')
  const { dist, remove } = await buildPrograms(root)
  removePrograms = remove
  ground = { dist, template: await makeTemplate({ dist, clusterUrl }) }
}, 120_000)

afterAll(async () => {
  await ground?.template.remove()
  removePrograms()
})

/** Each as often as asked for, so that what happens once in twenty times is seen. */
function play(name: string, scenario: () => Promise<void>): void {
  for (let time = 1; time <= times; time++)
    test(times === 1 ? name : `${name} #${time}`, { timeout: 180_000 }, scenario)
}

describe.concurrent('scenario', () => {
  play('server, Postgres and agents all dead: the example answers throughout', () =>
    playAllDead({ dist: ground.dist, root }),
  )
  const all = [databases, jobEnds, cancels, deaths, leases, holds, identities, manifests, handshakes].flat()
  for (const scenario of all) play(scenario.name, () => playScenario(scenario, ground))
  for (const tampering of tamperings)
    play(`audit verify names ${tampering.name}`, () => playTampering(tampering, ground))
})
