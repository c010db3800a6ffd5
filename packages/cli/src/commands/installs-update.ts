import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'
import { APPROVAL_OPTIONS, type Json } from '@tenon/core'
import { inputSecretName, type CallInput, type Client } from '@tenon/protocol'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Cli } from '../cli.ts'
import { CliError, usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { followRun } from '../follow/follow-run.ts'
import { examples } from '../help-text.ts'
import { newestVersionIfAny } from './app-version.ts'

type Change = NonNullable<CallInput<'installs.update'>['body']>

export function addUpdate(installs: Command, cli: Cli): void {
  installs
    .command('update')
    .description('change an install’s inputs, switches, overrides or approval, and follow what it starts')
    .argument('<install>', 'its name or id')
    .option('--input <name=value>', 'an input; may be repeated', takeInput, {} as Record<string, Json>)
    .option('--unset <name>', 'take an input back to its default; may be repeated', takeNames, [] as string[])
    .option('--enable <component>', 'switch a component on; may be repeated', takeNames, [] as string[])
    .option('--disable <component>', 'switch a component off and remove it', takeNames, [] as string[])
    .option('--overrides <file>', 'JSON: what this install says otherwise, by component')
    .addOption(
      new Option('--approval <how>', 'whether somebody approves each deploy').choices(APPROVAL_OPTIONS),
    )
    .option('--with-dependents', 'with what is switched off, remove what stands on it')
    .option('--no-deploy', 'keep it for the next deploy')
    .option('--detach', 'do not follow the runs')
    .addHelpText(
      'after',
      examples(
        'tenon installs update acme --input size=3',
        'tenon installs update acme --disable search',
        'tenon installs update acme --disable db --with-dependents',
        'tenon installs update acme --approval prompt',
      ),
    )
    .action(async (ref, options) => {
      const body = await changeOf(cli, options)
      if (Object.keys(body).length === 0)
        throw usageError(
          'there is nothing to change',
          'give --input, --unset, --enable, --disable, --overrides or --approval',
        )
      const client = await cli.client()
      const given = Object.keys(options.input)
      if (given.length > 0) {
        const { app } = await client.call('installs.get', { params: { ref } })
        await refuseSensitive(client, app, ref, given)
      }
      const { install, runs } = await client.call('installs.update', {
        params: { ref },
        body: {
          ...body,
          deploy: options.deploy,
          ...(options.withDependents === true ? { withDependents: true } : {}),
        },
      })
      if (cli.globals.json && options.detach) return cli.out.json({ install, runs })
      cli.out.note(`install ${install.name} is changed`)
      if (runs.length === 0) cli.out.note('nothing that runs uses it')
      for (const run of runs) {
        if (options.detach) cli.out.line(run.id)
        else await followRun(cli, client, run)
      }
    })
}

/** The value of a sensitive input must not reach the server, so it is refused before anything is sent. */
export async function refuseSensitive(
  client: Client,
  app: string,
  install: string,
  given: readonly string[],
): Promise<void> {
  const version = given.length === 0 ? undefined : await newestVersionIfAny(client, app)
  const sensitive = version?.app.inputs?.filter((input) => input.sensitive && given.includes(input.name))
  const first = sensitive?.[0]?.name
  if (first === undefined) return
  throw usageError(
    `input ${first} is sensitive: its value must not reach the server, and was not sent`,
    `seal it to the install: tenon installs secrets set ${install} ${inputSecretName(first)}`,
  )
}

interface Options {
  input: Record<string, Json>
  unset: string[]
  enable: string[]
  disable: string[]
  overrides?: string | undefined
  approval?: Change['approval']
}

async function changeOf(cli: Cli, options: Options): Promise<Change> {
  const inputs = { ...options.input, ...Object.fromEntries(options.unset.map((name) => [name, null])) }
  const toggles = {
    ...Object.fromEntries(options.enable.map((name) => [name, true])),
    ...Object.fromEntries(options.disable.map((name) => [name, false])),
  }
  return {
    ...(Object.keys(inputs).length > 0 ? { inputs } : {}),
    ...(Object.keys(toggles).length > 0 ? { toggles } : {}),
    ...(options.overrides === undefined ? {} : { overrides: await readOverrides(cli, options.overrides) }),
    ...(options.approval === undefined ? {} : { approval: options.approval }),
  }
}

async function readOverrides(cli: Cli, file: string): Promise<NonNullable<Change['overrides']>> {
  const path = resolve(cli.io.cwd, file)
  try {
    return JSON.parse(await readFile(path, 'utf8')) as NonNullable<Change['overrides']>
  } catch (cause) {
    throw new CliError(EXIT.usage, `${path} cannot be read as JSON: ${(cause as Error).message}`, {
      next: 'write it as {"COMPONENT": {"helm_values": {…}}}',
      cause,
    })
  }
}

export function takeInput(given: string, before: Record<string, Json>): Record<string, Json> {
  const at = given.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('expected name=value')
  return { ...before, [given.slice(0, at)]: given.slice(at + 1) }
}

function takeNames(given: string, before: string[]): string[] {
  return [...before, given]
}
