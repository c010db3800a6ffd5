import type { Command } from '@commander-js/extra-typings'
import type { CallOutput } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { keyFingerprint } from '../crypto.ts'
import { examples } from '../help-text.ts'
import { confirm } from '../secrets/read-value.ts'

type Keys = CallOutput<'keys.rotate'>['keys']

export function addKeys(program: Command, cli: Cli): void {
  const keys = program
    .command('keys')
    .description('the keys that the server signs with')
    .addHelpText('after', examples('tenon keys list', 'tenon keys rotate --yes'))
  keys
    .command('list')
    .description('the chain of keys, the newest last')
    .addHelpText('after', examples('tenon keys list', 'tenon keys list --json'))
    .action(async () => {
      const client = await cli.client()
      show(cli, (await client.call('server.info', {})).keys)
    })
  keys
    .command('rotate')
    .description('make a new signing key, vouched for by the current one; agents follow by themselves')
    .option('--yes', 'do not ask')
    .addHelpText('after', examples('tenon keys rotate --yes'))
    .action(async (options) => {
      await confirm(cli.io, 'make a new signing key', options.yes === true)
      const client = await cli.client()
      show(cli, (await client.call('keys.rotate', {})).keys)
    })
}

function show(cli: Cli, keys: Keys): void {
  if (cli.globals.json) return cli.out.json({ keys })
  cli.out.table(
    [
      { title: 'ID', value: (key) => key.keyId },
      { title: 'FINGERPRINT', value: (key) => keyFingerprint(key.publicKey) },
      { title: 'SIGNED BY', value: (key) => key.signedBy ?? 'nobody: it is the first' },
    ],
    keys,
    'the server has no key',
  )
}
