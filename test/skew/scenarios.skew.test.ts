import { buildPrograms } from '../../packages/dev-env/src/programs.ts'
import { playScenarios, root } from '../../packages/dev-env/src/scenarios.testing.ts'
import { COMMITS, WITHOUT } from './commits.ts'
import { earlierPrograms, whyAbsent } from './earlier.ts'

const { oldest, beforePrincipals } = COMMITS
const PAIRS = [
  { server: 'today', agents: oldest },
  { server: 'today', agents: beforePrincipals },
  { server: oldest, agents: 'today' },
]

const programsOf = (version: string) =>
  version === 'today' ? buildPrograms(root) : earlierPrograms(root, version)

async function programsOfPair(pair: (typeof PAIRS)[number]) {
  const server = await programsOf(pair.server)
  const agents = await programsOf(pair.agents)
  const remove = () => [server, agents].forEach((programs) => programs.remove())
  return { dist: server.dist, agentDist: agents.dist, remove }
}

for (const pair of PAIRS) {
  const title = `server ${pair.server.slice(0, 7)}, agents ${pair.agents.slice(0, 7)}`
  const earlier = pair.server === 'today' ? pair.agents : pair.server
  playScenarios(title, {
    programs: () => programsOfPair(pair),
    absent: whyAbsent(root, earlier),
    without: WITHOUT[title] ?? {},
  })
}
