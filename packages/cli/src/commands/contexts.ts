import type { Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { readConfig, writeConfig, type Config } from '../config/contexts.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'

export function addContexts(program: Command, cli: Cli): void {
  const contexts = program
    .command('contexts')
    .description('the servers this machine is signed in to')
    .addHelpText('after', examples('tenon contexts list', 'tenon contexts use production'))
  contexts
    .command('list', { isDefault: true })
    .description('list them; never their tokens')
    .addHelpText('after', examples('tenon contexts', 'tenon contexts list --json'))
    .action(() => list(cli))
  contexts
    .command('use')
    .description('make one the current one')
    .argument('<name>', 'its name')
    .addHelpText('after', examples('tenon contexts use production'))
    .action(async (name) => {
      const config = await withContext(cli, name)
      config.current = name
      await writeConfig(cli.io, config)
      cli.out.note(`context ${name} is now current`)
    })
  contexts
    .command('remove')
    .description('forget one and its token; the token itself stays valid until it is revoked')
    .argument('<name>', 'its name')
    .addHelpText('after', examples('tenon contexts remove staging'))
    .action(async (name) => {
      const config = await withContext(cli, name)
      delete config.contexts[name]
      if (config.current === name) config.current = null
      await writeConfig(cli.io, config)
      cli.out.note(`context ${name} is forgotten; revoke its token with: tenon tokens revoke ID`)
    })
}

async function list(cli: Cli): Promise<void> {
  const config = await readConfig(cli.io)
  const items = Object.entries(config.contexts).map(([name, { url }]) => ({
    name,
    url,
    current: config.current === name,
  }))
  if (cli.globals.json) return cli.out.json({ items, next: null })
  cli.out.table(
    [
      { title: 'NAME', value: (c) => c.name },
      { title: 'URL', value: (c) => c.url },
      {
        title: 'CURRENT',
        value: (c) => (c.current ? 'current' : ''),
        paint: (text, c) => paintStatus(cli.out.paint, c.current ? 'current' : '', text),
      },
    ],
    items,
    'no server yet; next: tenon login --url URL',
  )
}

async function withContext(cli: Cli, name: string): Promise<Config> {
  const config = await readConfig(cli.io)
  if (Object.hasOwn(config.contexts, name)) return config
  throw new CliError(EXIT.notFound, `there is no context named ${JSON.stringify(name)}`, {
    next: 'tenon contexts list',
  })
}
