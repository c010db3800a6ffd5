import type { Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { showStarted } from './runs.ts'

export function addDeploy(program: Command, cli: Cli): void {
  program
    .command('deploy')
    .description('bring the newest builds of components to an install, and follow the run')
    .argument('<install>', 'the install’s name or id')
    .argument('[components...]', 'which components; all of them otherwise')
    .option('--detach', 'print the run’s id and do not follow it')
    .addHelpText(
      'after',
      examples('tenon deploy acme', 'tenon deploy acme web worker', 'tenon deploy acme --detach --json'),
    )
    .action(async (install, components, options) => {
      const client = await cli.client()
      const body = components.length > 0 ? { components } : {}
      const run = await client.call('deploys.create', { params: { ref: install }, body })
      await showStarted(cli, client, run, options.detach === true)
    })
}
