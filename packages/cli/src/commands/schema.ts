import type { Command } from '@commander-js/extra-typings'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { filesOf, jsonSchemaOf, SCHEMA_KINDS } from '../app-config/json-schema.ts'
import { expectOneOf } from '../app-config/nearest.ts'
import type { Cli } from '../cli.ts'
import { usageError } from '../errors.ts'
import { examples } from '../help-text.ts'
import { plural } from '../output/words.ts'

export function addSchema(program: Command, cli: Cli): void {
  program
    .command('schema')
    .description('JSON schemas of an app’s files, for editors; without a kind it lists them')
    .argument('[kind]', 'the kind of file')
    .option('--out <dir>', 'write all of them into this folder, as KIND.schema.json')
    .addHelpText(
      'after',
      examples('tenon schema', 'tenon schema component-helm_chart', 'tenon schema --out .schemas'),
    )
    .action(async (kind, options) => {
      if (options.out !== undefined) return writeAll(cli, resolve(cli.io.cwd, options.out))
      if (kind === undefined) return list(cli)
      const schema = jsonSchemaOf(kind)
      if (!schema)
        throw usageError(
          `there is no kind of file ${kind}`,
          `it may be ${expectOneOf(kind, SCHEMA_KINDS)}; list them: tenon schema`,
        )
      cli.out.json(schema)
    })
}

function list(cli: Cli): void {
  const kinds = SCHEMA_KINDS.map((kind) => ({ kind, files: filesOf(kind) }))
  if (cli.globals.json) return cli.out.json(kinds)
  cli.out.table(
    [
      { title: 'KIND', value: (k) => k.kind },
      { title: 'FILES', value: (k) => k.files },
    ],
    kinds,
    'there are none',
  )
}

async function writeAll(cli: Cli, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const kind of SCHEMA_KINDS)
    await writeFile(join(folder, `${kind}.schema.json`), `${JSON.stringify(jsonSchemaOf(kind), null, 2)}\n`)
  cli.out.line(`${plural(SCHEMA_KINDS.length, 'schema')} in ${folder}`)
  cli.out.note(
    'next: name one in the first line of a file, such as: #:schema ../.schemas/component.schema.json',
  )
}
