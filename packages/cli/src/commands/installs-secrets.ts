import { sizeWords } from '@tenon/core'
import type { Command } from '@commander-js/extra-typings'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { rememberServer } from '../audit/known-servers.ts'
import { recognise } from '../audit/recognise.ts'
import type { Cli } from '../cli.ts'
import { keyFingerprint } from '../crypto.ts'
import { CliError, errorCode, usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { ago } from '../output/words.ts'
import { readHidden, readPiped } from '../secrets/read-value.ts'
import { checkRecipient, pinRecipient, seal } from '../secrets/seal.ts'
import { showPage } from './paging.ts'

/** The API takes 100,000 characters of base64. */
const MOST_BYTES = 70_000

export function addSecrets(installs: Command, cli: Cli): void {
  const secrets = installs
    .command('secrets')
    .description('values that only an install’s own agent can read')
    .addHelpText(
      'after',
      examples('tenon installs secrets set acme api-key', 'tenon installs secrets list acme'),
    )
  secrets
    .command('set')
    .description('seal a value to an install; it is read from stdin, a file or a prompt')
    .argument('<install>', 'the install’s name or id')
    .argument('<name>', 'the secret’s name')
    .option('--file <file>', 'take the exact bytes of this file')
    .option(
      '--agent-key <fingerprint>',
      'accept the agent with this key from now on, as the customer told it',
    )
    .addHelpText(
      'after',
      examples(
        'tenon installs secrets set acme api-key',
        'tenon installs secrets set acme tls-key --file ./tls.key',
        'pass show acme/api-key | tenon installs secrets set acme api-key',
      ),
    )
    .action((install, name, options) => setSecret(cli, install, name, options))
  secrets
    .command('list')
    .description('names of the secrets sent to an install; never their values')
    .argument('<install>', 'the install’s name or id')
    .addHelpText('after', examples('tenon installs secrets list acme'))
    .action(async (ref) => {
      const client = await cli.client()
      const page = await client.call('secrets.list', { params: { ref } })
      const now = cli.io.clock.now()
      showPage(
        cli,
        page,
        [
          { title: 'NAME', value: (s) => s.name, shrink: true },
          { title: 'VERSION', value: (s) => s.version },
          {
            title: 'DELIVERED',
            value: (s) => (s.delivered ? 'yes' : s.problem === null ? 'not yet' : 'refused'),
          },
          { title: 'SET', value: (s) => ago(s.setAt, now) },
        ],
        'no secrets were sent',
      )
      for (const { name, problem } of page.items) {
        if (problem !== null) cli.out.note(`the agent could not store ${name}: ${problem}`)
      }
    })
}

interface SetOptions {
  file?: string | undefined
  agentKey?: string | undefined
}

async function setSecret(cli: Cli, install: string, name: string, options: SetOptions): Promise<void> {
  const client = await cli.client()
  const offered = await client.call('installs.recipient', { params: { ref: install } })
  const { known, ...server } = await recognise(cli, client)
  const isNew = checkRecipient(install, offered, known, options.agentKey)
  const ciphertext = await seal(await readValue(cli, name, options.file), offered.recipient)
  const stored = await client.call('secrets.put', { params: { ref: install, name }, body: { ciphertext } })
  pinRecipient(install, offered, known)
  await rememberServer(server, known)
  if (isNew)
    cli.out.note(
      `the agent of ${install} is new here; its key is ${keyFingerprint(offered.agentPublicKey)}, as \`tenon agent status\` shows it there`,
    )
  if (cli.globals.json) return cli.out.json(stored)
  const arrival = stored.delivered ? 'delivered' : 'on its way to the agent'
  cli.out.line(`secret ${stored.name} version ${stored.version} is sealed to ${install}: ${arrival}`)
}

async function readValue(cli: Cli, name: string, file: string | undefined): Promise<Uint8Array> {
  const value = await givenValue(cli, name, file)
  if (value.length === 0)
    throw usageError('the value is empty', 'give it on stdin, with --file, or at the prompt')
  if (value.length > MOST_BYTES) throw usageError(`the value has more than ${sizeWords(MOST_BYTES)}`)
  return value
}

async function givenValue(cli: Cli, name: string, file: string | undefined): Promise<Uint8Array> {
  if (file !== undefined) {
    return readFile(resolve(cli.io.cwd, file)).catch((cause: unknown) => {
      throw new CliError(EXIT.usage, `cannot read ${file}: ${errorCode(cause) ?? 'unknown'}`, { cause })
    })
  }
  if (cli.io.stdin.isTTY) return readHidden(cli.io, `value of ${name}: `)
  const piped = await readPiped(cli.io.stdin, MOST_BYTES + 1)
  // The line end that `echo` and most password managers add is no part of the value.
  return piped.at(-1) === 10 ? piped.subarray(0, piped.at(-2) === 13 ? -2 : -1) : piped
}
