import { afterAll } from 'vitest'
import { buildPrograms, type Programs } from '../../packages/dev-env/src/programs.ts'
import { playScenarios, root } from '../../packages/dev-env/src/scenarios.testing.ts'
import { COMMITS, WITHOUT } from './commits.ts'
import { earlierPrograms, whyAbsent } from './earlier.ts'

const { oldest, beforePrincipals } = COMMITS
const PAIRS = [
  { server: 'today', agents: oldest },
  { server: 'today', agents: beforePrincipals },
  { server: oldest, agents: 'today' },
]

/** Built once for all pairs. */
let today: Promise<Programs> | undefined
afterAll(async () => (await today)?.remove())

async function programsOfPair(pair: (typeof PAIRS)[number], earlier: string) {
  const now = await (today ??= buildPrograms(root))
  const before = await earlierPrograms(root, earlier)
  const distOf = (version: string) => (version === 'today' ? now : before).dist
  return { dist: distOf(pair.server), agentDist: distOf(pair.agents), remove: before.remove }
}

for (const pair of PAIRS) {
  const title = `server ${pair.server.slice(0, 7)}, agents ${pair.agents.slice(0, 7)}`
  const earlier = pair.server === 'today' ? pair.agents : pair.server
  playScenarios(title, {
    programs: () => programsOfPair(pair, earlier),
    absent: whyAbsent(root, earlier),
    without: WITHOUT[title] ?? {},
  })
}
