import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, test, vi } from 'vitest'
import { playScenario, type Ground } from './scenario.ts'
import { playAllDead } from './scenarios/all-dead.ts'
import { playTampering, tamperings } from './scenarios/audit-tampering.ts'
import { cancels } from './scenarios/cancels.ts'
import { databases } from './scenarios/databases.ts'
import { deaths } from './scenarios/deaths.ts'
import { playFirstStart } from './scenarios/first-starts.ts'
import { handshakes } from './scenarios/handshakes.ts'
import { holds } from './scenarios/holds.ts'
import { identities } from './scenarios/identities.ts'
import { jobEnds } from './scenarios/job-ends.ts'
import { leases } from './scenarios/leases.ts'
import { manifests } from './scenarios/manifests.ts'
import { networks } from './scenarios/networks.ts'
import { makeTemplate } from './template.ts'
import type { Dists } from './world.ts'

export const root = fileURLToPath(new URL('../../..', import.meta.url))

interface Play {
  /** Programs, and what undoes their making. */
  programs: () => Promise<Dists & { remove(): void }>
  times?: number
  /** Why none of them can be played here. */
  absent?: string | undefined
  /** Scenarios that are not played, each with the reason. */
  without?: Readonly<Record<string, string>>
}

export function postgresOfTheRun(): string {
  const url = process.env['TENON_TEST_POSTGRES_URL']
  if (!url) throw new Error('the run has no PostgreSQL: postgres/vitest-global-setup.ts starts it')
  return url
}

/** Every scenario with the same programs, several at once; as often as asked for, so that what is rare is seen. */
export function playScenarios(title: string, { programs, times = 1, absent, without = {} }: Play): void {
  vi.setConfig({ maxConcurrency: Number(process.env['TENON_SCENARIOS_AT_ONCE'] ?? 4) })
  let ground: Ground
  const undo: (() => Promise<void> | void)[] = []
  const scenarios = allScenarios(() => ground)
  const unknown = Object.keys(without).find((name) => !scenarios.has(name))
  if (unknown) throw new Error(`${title}: there is no scenario "${unknown}" to leave out`)

  describe(title, () => {
    beforeAll(async () => {
      const { remove, ...dists } = await programs()
      undo.push(remove)
      const template = await makeTemplate({ ...dists, clusterUrl: postgresOfTheRun() })
      undo.push(() => template.remove())
      ground = { dists, template }
    }, 240_000)
    afterAll(async () => {
      for (const one of undo.toReversed()) await one()
    })
    for (const [name, { play, lacks }] of scenarios)
      for (let time = 1; time <= times; time++) {
        const title = times === 1 ? name : `${name} #${time}`
        const reason = absent ?? without[name] ?? lacks
        const options = { concurrent: true, skip: reason !== undefined, timeout: 180_000 }
        test(reason ? `${title} (${reason})` : title, options, play)
      }
  })
}

interface Playable {
  play: () => Promise<void>
  /** What this machine has not. */
  lacks?: string | undefined
}

function allScenarios(ground: () => Ground): Map<string, Playable> {
  const asData = [
    databases,
    jobEnds,
    cancels,
    deaths,
    leases,
    holds,
    identities,
    manifests,
    handshakes,
    networks,
  ].flat()
  return new Map([
    [
      'server, Postgres and agents all dead: the example answers throughout',
      { play: () => playAllDead({ dists: ground().dists, root }) },
    ],
    [
      'a first start on a busy port, then one that works, and an owner who lost the token twice',
      { play: () => playFirstStart(ground().dists) },
    ],
    ...asData.map(
      (scenario) =>
        [scenario.name, { play: () => playScenario(scenario, ground()), lacks: scenario.absent }] as const,
    ),
    ...tamperings.map(
      (tampering) =>
        [`audit verify names ${tampering.name}`, { play: () => playTampering(tampering, ground()) }] as const,
    ),
  ])
}
