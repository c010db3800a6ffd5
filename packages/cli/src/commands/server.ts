import type { Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { spawnBundle } from '../spawn-bundle.ts'

export function addServer(program: Command, cli: Cli): void {
  program
    .command('server')
    .description('run the server here; arguments after `start` are its own')
    .argument('[args...]', '`start`, then the server’s own arguments')
    .allowUnknownOption()
    .addHelpText(
      'after',
      examples('tenon server', 'tenon server start', 'DATABASE_URL=postgres://… tenon server start'),
    )
    .action(async (args) => {
      cli.exitCode = await spawnBundle(cli.io, 'server', args[0] === 'start' ? args.slice(1) : args)
    })
}
