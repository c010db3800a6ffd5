import { Option, type Command } from '@commander-js/extra-typings'
import { partName } from '@tenon/protocol'
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Cli } from '../cli.ts'
import { CliError, errorCode } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { EXECUTABLE, shellTemplate } from '../plugin-templates/shell.ts'
import { typescriptTemplate } from '../plugin-templates/typescript.ts'

export function addPlugins(program: Command, cli: Cli): void {
  const plugins = program
    .command('plugins')
    .description('component types of your own')
    .addHelpText('after', examples('tenon plugins init greet'))
  plugins
    .command('init')
    .description('begin a plugin: a folder that works as it is')
    .argument('<name>', 'the component type that it implements')
    .argument('[dir]', 'an empty folder, or one that does not exist yet (default: the name)')
    .addOption(
      new Option('--shell', 'one executable per operation; needs nothing else').conflicts('typescript'),
    )
    .addOption(new Option('--typescript', 'one module, bundled with esbuild'))
    .addHelpText(
      'after',
      examples('tenon plugins init greet', 'tenon plugins init greet plugins/greet --typescript'),
    )
    .action(async (name, given, options) => {
      const checked = partName.safeParse(name)
      if (!checked.success) {
        const next = `a name ${checked.error.issues[0]?.message ?? ''}`
        throw new CliError(EXIT.usage, `${JSON.stringify(name)} is no name for a component type`, { next })
      }
      const dir = given ?? name
      const folder = resolve(cli.io.cwd, dir)
      await requireEmpty(folder)
      const files = options.typescript === true ? typescriptTemplate(name) : shellTemplate(name)
      for (const [file, text] of Object.entries(files)) {
        await mkdir(dirname(join(folder, file)), { recursive: true })
        await writeFile(join(folder, file), text)
        if (EXECUTABLE.includes(file)) await chmod(join(folder, file), 0o755)
      }
      if (cli.globals.json) return cli.out.json({ folder, files: Object.keys(files) })
      for (const file of Object.keys(files)) cli.out.line(join(dir, file))
      cli.out.note(`next: read ${join(dir, 'README.md')}`)
    })
}

async function requireEmpty(folder: string): Promise<void> {
  const found = await readdir(folder).catch((cause: unknown) => {
    if (errorCode(cause) === 'ENOENT') return []
    const next = 'name another folder'
    throw new CliError(EXIT.usage, `${folder} cannot be used (${errorCode(cause)})`, { next, cause })
  })
  if (found.length === 0) return
  const next = 'name a folder that is empty or does not exist'
  throw new CliError(EXIT.conflict, `${folder} is not empty`, { next })
}
