import type { Command } from '@commander-js/extra-typings'
import { resolve } from 'node:path'
import { inspectApp, type Inspection } from '../app-config/load-app.ts'
import { formatProblem, formatWarning } from '../app-config/problem.ts'
import type { Cli } from '../cli.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { plain } from '../output/clean.ts'
import { plural } from '../output/words.ts'

export function addValidate(program: Command, cli: Cli): void {
  program
    .command('validate')
    .description('check an app’s config folder: mistakes, warnings, and what nothing acts on yet')
    .argument('[dir]', 'the folder that holds metadata.toml', '.')
    .addHelpText('after', examples('tenon validate', 'tenon validate ./my-app --json'))
    .action(async (dir) => {
      const found = await inspectApp(resolve(cli.io.cwd, dir))
      if (!found.ok) cli.exitCode = EXIT.usage
      if (cli.globals.json) return cli.out.json(toJson(found))
      for (const line of describe(found)) cli.out.line(plain(line))
    })
}

function toJson(found: Inspection) {
  if (!found.ok) {
    const { problems, idle } = found
    return { ok: false, problems, warnings: allWarnings(found), idle }
  }
  const { idle, app, installs } = found.loaded
  return { ok: true, app, installs, problems: [], warnings: allWarnings(found), idle }
}

function allWarnings(found: Inspection) {
  const { warnings, kept } = found.ok ? found.loaded : found
  return [...warnings, ...kept()]
}

function* describe(found: Inspection): Generator<string> {
  if (!found.ok) yield* found.problems.map(formatProblem)
  yield* allWarnings(found).map((warning) => `warning: ${formatWarning(warning)}`)
  if (!found.ok) {
    yield `${found.problems.length === 1 ? 'one mistake' : `${found.problems.length} mistakes`}`
    return
  }
  const { app, installs } = found.loaded
  const counts = [
    plural(app.components.length, 'component'),
    plural(app.inputs?.length ?? 0, 'input'),
    plural(app.secrets?.length ?? 0, 'secret'),
    plural(app.actions?.length ?? 0, 'action'),
    plural(installs.length, 'install'),
  ]
  yield `ok: ${app.name} (${counts.join(', ')})`
}
