import type { Command } from '@commander-js/extra-typings'
import { createPublicKey } from 'node:crypto'
import type { CallOutput } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { keyFingerprint } from '../crypto.ts'
import { usageError } from '../errors.ts'
import { examples } from '../help-text.ts'
import { confirm } from '../secrets/read-value.ts'

type Keys = CallOutput<'keys.rotate'>['keys']

export function addKeys(program: Command, cli: Cli): void {
  const keys = program
    .command('keys')
    .description('the keys that the server signs with')
    .addHelpText('after', examples('tenon keys list', 'tenon keys export --pem', 'tenon keys rotate --yes'))
  keys
    .command('list')
    .description('the chain of keys, the newest last')
    .addHelpText('after', examples('tenon keys list', 'tenon keys list --json'))
    .action(async () => {
      const client = await cli.client()
      show(cli, (await client.call('server.info', {})).keys)
    })
  keys
    .command('export')
    .description('the public key that artifacts are signed with, for cosign and other tools')
    .argument('[key]', 'the id of an older one; the newest otherwise')
    .option('--pem', 'as PEM, instead of base64 of its DER form')
    .addHelpText('after', examples('tenon keys export --pem > tenon.pub', 'tenon keys export key_01… --pem'))
    .action(async (id, options) => {
      const client = await cli.client()
      exportKey(cli, (await client.call('server.info', {})).keys, id, options.pem === true)
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

function exportKey(cli: Cli, keys: Keys, id: string | undefined, asPem: boolean): void {
  const key = id === undefined ? keys.at(-1) : keys.find(({ keyId }) => keyId === id)
  if (!key) throw usageError(`the server has no key ${id ?? ''}`.trimEnd(), 'see: tenon keys list')
  const { keyId, publicKey } = key
  const fingerprint = keyFingerprint(publicKey)
  const pem = toPem(publicKey)
  if (cli.globals.json) return cli.out.json({ keyId, publicKey, pem, fingerprint })
  cli.out.line(asPem ? pem.trimEnd() : publicKey)
  cli.out.note(`${keyId}, fingerprint ${fingerprint}`)
}

function toPem(publicKey: string): string {
  const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
  return key.export({ format: 'pem', type: 'spki' }).toString()
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
