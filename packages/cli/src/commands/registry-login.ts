import { Option, type Command } from '@commander-js/extra-typings'
import type { CallOutput, Client } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { until } from '../output/words.ts'
import {
  readCredentialFile,
  requireOwnEntries,
  withEntry,
  withoutEntry,
  writeCredentialFile,
} from '../registry-login/credential-file.ts'
import { exampleOf, filesOf, TOOLS, type Tool, type ToolFile } from '../registry-login/tools.ts'
import { wholeNumber } from './paging.ts'

type Login = CallOutput<'registry.login'>

const forTools = (what: string) =>
  new Option('--tool <tool...>', `${what}; all that are known otherwise`).choices(TOOLS)

export function addRegistryLogin(registry: Command, cli: Cli): void {
  registry
    .command('login')
    .description(
      'let docker, podman, skopeo, oras, cosign and helm pull from the vendor registry for a while',
    )
    .addOption(forTools('only for these tools'))
    .option('--minutes <n>', 'how long it holds', wholeNumber(1, 60), 60)
    .option('--print', 'write no file: print the password, alone on stdout')
    .addHelpText(
      'after',
      examples(
        'tenon registry login',
        'tenon registry login --tool helm oras --minutes 10',
        'tenon registry login --print --json',
      ),
    )
    .action((options) => login(cli, options))
  registry
    .command('logout')
    .description('end that at once, and take it out of the files of the tools')
    .addOption(forTools('only out of the files of these tools'))
    .addHelpText('after', examples('tenon registry logout', 'tenon registry logout --tool helm'))
    .action((options) => logout(cli, options.tool ?? TOOLS))
}

interface LoginOptions {
  tool?: readonly Tool[] | undefined
  minutes: number
  print?: true | undefined
}

/** Every file is read before the credential is made, so that none is made for want of a place. */
async function login(cli: Cli, { tool: tools = TOOLS, minutes, print }: LoginOptions): Promise<void> {
  const { url } = await cli.connection()
  const registry = new URL(url).host
  const client = await cli.client()
  const make = () => client.call('registry.login', { body: { expiresInSeconds: minutes * 60 } })
  if (print) return show(cli, registry, await make())
  const files = filesOf(tools, cli.io)
  const contents = await Promise.all(
    files.map(async (each) => {
      const content = await readCredentialFile(each.path)
      requireOwnEntries(each.path, content, registry)
      return { ...each, content }
    }),
  )
  const made = await make()
  for (const { path, content } of contents)
    await writeCredentialFile(path, withEntry(content, registry, made)).catch((cause: unknown) =>
      giveBack(client, made, path, cause),
    )
  tell(cli, url, files, made)
}

function show(cli: Cli, registry: string, made: Login): void {
  if (cli.globals.json) return cli.out.json({ registry, ...made })
  cli.out.line(made.password)
  cli.out.note(
    `for ${registry}, username ${made.username}; it expires ${until(made.expiresAt, cli.io.clock.now())}`,
  )
}

function tell(cli: Cli, url: string, files: ToolFile[], { username, expiresAt }: Login): void {
  const registry = new URL(url).host
  if (cli.globals.json) return cli.out.json({ registry, username, expiresAt, files })
  for (const { path, tools } of files) cli.out.line(`wrote ${path} for ${tools.join(', ')}`)
  cli.out.line(`they may pull from ${registry}; it expires ${until(expiresAt, cli.io.clock.now())}`)
  cli.out.note('next, with an artifact of `tenon artifacts list`:')
  for (const { tools } of files) for (const tool of tools) cli.out.note(`  ${exampleOf(tool, url)}`)
}

async function giveBack(client: Client, { username }: Login, path: string, cause: unknown): Promise<never> {
  await client.call('registry.logout', { params: { id: username } }).catch(() => undefined)
  throw new CliError(EXIT.failed, `cannot write ${path}: ${(cause as Error).message}`, {
    next: 'mend that, or choose other tools with --tool; what was written of it elsewhere is of no use any more',
    cause,
  })
}

/** The files first: what the server says of a credential that is gone from here matters less. */
async function logout(cli: Cli, tools: readonly Tool[]): Promise<void> {
  const { url } = await cli.connection()
  const registry = new URL(url).host
  const removed: ToolFile[] = []
  const ids = new Set<string>()
  for (const each of filesOf(tools, cli.io)) {
    const found = withoutEntry(await readCredentialFile(each.path), registry)
    if (found === undefined) continue
    await writeCredentialFile(each.path, found.file)
    ids.add(found.username)
    removed.push(each)
  }
  const client = await cli.client()
  const problems: string[] = []
  for (const id of ids)
    await client.call('registry.logout', { params: { id } }).catch((error: Error) => {
      problems.push(error.message)
    })
  if (cli.globals.json) return cli.out.json({ registry, files: removed, ended: problems.length === 0 })
  for (const { path } of removed) cli.out.line(`removed the credential for ${registry} from ${path}`)
  if (removed.length === 0) cli.out.note(`no credential of tenon registry login for ${registry} was found`)
  for (const problem of problems)
    cli.out.note(`the server did not end it (${problem}); it expires within the hour`)
}
