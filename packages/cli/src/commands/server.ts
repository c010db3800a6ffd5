import type { Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { spawnBundle } from '../spawn-bundle.ts'

export function addServer(program: Command, cli: Cli): void {
  program
    .command('server')
    .description('run the server here, or make a new owner’s token where none is left')
    .argument('[args...]', '`start` or `recover-owner`')
    .allowUnknownOption()
    .addHelpText(
      'after',
      examples(
        'tenon server start',
        'DATABASE_URL=postgres://… tenon server start',
        'TENON_DATA_DIR=/var/lib/tenon tenon server recover-owner',
      ),
    )
    .action(async (args) => {
      cli.exitCode = await spawnBundle(cli.io, 'server', args[0] === 'start' ? args.slice(1) : args)
    })
}
