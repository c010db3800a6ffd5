import { Option, type Command } from '@commander-js/extra-typings'
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { INIT_TEMPLATES, initFiles, type InitTemplate } from '../app-config/init-templates.ts'
import type { Cli } from '../cli.ts'
import { CliError, errorCode } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'

export function addInit(program: Command, cli: Cli): void {
  program
    .command('init')
    .description('begin an app: a config folder that validates')
    .argument('[dir]', 'an empty folder, or one that does not exist yet', '.')
    .addOption(
      new Option('--template <name>', 'what it begins with')
        .choices(Object.keys(INIT_TEMPLATES) as InitTemplate[])
        .default('hello' as InitTemplate),
    )
    .addHelpText('after', examples('tenon init my-app', 'tenon init my-app --template kubernetes'))
    .action(async (dir, options) => {
      const folder = resolve(cli.io.cwd, dir)
      await requireEmpty(folder)
      const files = initFiles(options.template, basename(folder))
      for (const [file, text] of Object.entries(files)) {
        await mkdir(dirname(join(folder, file)), { recursive: true })
        await writeFile(join(folder, file), text)
        if (file.endsWith('.sh')) await chmod(join(folder, file), 0o755)
      }
      if (cli.globals.json) return cli.out.json({ folder, files: Object.keys(files) })
      for (const file of Object.keys(files)) cli.out.line(join(dir, file))
      cli.out.note(`next: tenon validate ${dir}`)
    })
}

async function requireEmpty(folder: string): Promise<void> {
  const found = await readdir(folder).catch((cause: unknown) => {
    if (errorCode(cause) === 'ENOENT') return []
    throw new CliError(EXIT.usage, `${folder} cannot be used (${errorCode(cause)})`, {
      next: 'name another folder',
      cause,
    })
  })
  if (found.length > 0)
    throw new CliError(EXIT.conflict, `${folder} is not empty`, {
      next: 'name a folder that is empty or does not exist',
    })
}
