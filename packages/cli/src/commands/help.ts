import type { Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { usageError } from '../errors.ts'
import { exitCodesText } from '../exit-codes.ts'
import { examples } from '../help-text.ts'

export function addHelp(program: Command, cli: Cli): void {
  program
    .command('help')
    .description('help on a command, or on the exit codes')
    .argument('[words...]', 'the command, or `exit-codes`')
    .addHelpText('after', examples('tenon help deploy', 'tenon help exit-codes'))
    .action((words) => {
      if (words[0] === 'exit-codes') return cli.out.raw(exitCodesText())
      findCommand(program, words).outputHelp()
      return undefined
    })
}

function findCommand(program: Command, words: readonly string[]): Command {
  let at: Command = program
  for (const word of words) {
    const next = (at.commands as readonly Command[]).find(
      (c) => c.name() === word || c.aliases().includes(word),
    )
    if (!next) throw usageError(`there is no command \`${[...words].join(' ')}\``, 'tenon --help')
    at = next
  }
  return at
}
