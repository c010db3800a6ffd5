import type { Command } from '@commander-js/extra-typings'
import { nearest } from '@tenon/core'
import type { CallOutput } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { renderAhead } from '../output/render-plan.ts'
import { ago } from '../output/words.ts'

type Component = CallOutput<'installs.get'>['components'][number]

export function addDrift(program: Command, cli: Cli): void {
  program
    .command('drift')
    .description('what differs on an install from what was deployed, though nobody decided it')
    .argument('<install>', 'the install’s name or id')
    .argument('[component]', 'only this component')
    .addHelpText('after', examples('tenon drift acme', 'tenon drift acme db'))
    .action(async (ref, component) => {
      const client = await cli.client()
      const install = await client.call('installs.get', { params: { ref } })
      const asked = componentsAsked(install.name, install.components, component)
      if (cli.globals.json)
        return cli.out.json({ items: asked.map(({ name, drift }) => ({ component: name, drift })) })
      const drifted = asked.filter(({ drift }) => drift !== null)
      for (const each of drifted) show(cli, each)
      if (drifted.length > 0)
        return cli.out.note(`bring it back to what was decided: tenon deploy ${install.name} --changed`)
      cli.out.line(`no drift is known of ${component ?? install.name}`)
      cli.out.note('only components with a drift_schedule are looked at, when it says so')
    })
}

function componentsAsked(install: string, there: Component[], name: string | undefined): Component[] {
  if (name === undefined) return there
  const found = there.filter((each) => each.name === name)
  if (found.length > 0) return found
  const names = there.map((each) => each.name)
  const near = nearest(name, names)
  throw new CliError(EXIT.notFound, `nothing named ${name} is on ${install}`, {
    next:
      near === undefined
        ? `what is there: ${names.join(', ') || 'nothing'}`
        : `tenon drift ${install} ${near}`,
  })
}

function show(cli: Cli, { name, drift }: Component): void {
  if (drift === null) return
  const { out } = cli
  out.line(out.paint.bold(`${name}, seen first ${ago(drift.since, cli.io.clock.now())}`))
  for (const line of renderAhead(drift.plan, out.paint)) out.line(line)
  out.note(`all that was looked at: tenon logs ${drift.jobId}`)
}
