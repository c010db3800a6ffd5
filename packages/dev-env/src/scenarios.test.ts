import { buildPrograms } from './programs.ts'
import { playScenarios, root } from './scenarios.testing.ts'

playScenarios('scenario', {
  programs: () => buildPrograms(root),
  times: Number(process.env['TENON_SCENARIO_TIMES'] ?? 1),
})
