import type { Command } from '@commander-js/extra-typings'
import { resolve } from 'node:path'
import { clientFor, type Cli } from '../cli.ts'
import {
  checkContextName,
  checkToken,
  checkUrl,
  isLoopback,
  readConfig,
  writeConfig,
} from '../config/contexts.ts'
import { readTokenFile } from '../config/resolve.ts'
import { usageError } from '../errors.ts'
import { examples } from '../help-text.ts'
import { readHidden, readPiped } from '../secrets/read-value.ts'

interface Options {
  url: string
  tokenFile?: string | undefined
  name?: string | undefined
  insecureHttp?: true | undefined
}

export function addLogin(program: Command, cli: Cli): void {
  program
    .command('login')
    .description('sign in to a server and remember it; the token is read from a file, stdin or a prompt')
    .requiredOption('--url <url>', 'the address of the server')
    .option('--token-file <file>', 'the file that holds the token')
    .option('--name <name>', 'what to call this server; its host name otherwise')
    .option('--insecure-http', 'send the token over plain HTTP to another machine')
    .addHelpText(
      'after',
      examples(
        'tenon login --url https://tenon.example.com',
        'tenon login --url https://tenon.example.com --token-file ./token --name production',
        'pass show tenon | tenon login --url https://tenon.example.com',
      ),
    )
    .action((options) => login(cli, options))
}

async function login(cli: Cli, options: Options): Promise<void> {
  const { io, out } = cli
  const url = checkUrl(options.url)
  if (url.startsWith('http:') && !isLoopback(url) && !options.insecureHttp) {
    throw usageError(
      `${url} would send the token unencrypted over the network`,
      'use https, or add --insecure-http if you know the network',
    )
  }
  const name = checkContextName(
    options.name ?? new URL(url).hostname.replace(/[[\]:]+/g, '-').replace(/^-+|-+$/g, ''),
  )
  const token = await readToken(cli, options.tokenFile)
  const info = await clientFor(io, { url, token }).call('server.info', {})
  const config = await readConfig(io)
  config.contexts[name] = { url, token }
  config.current = name
  await writeConfig(io, config)
  if (cli.globals.json) return out.json({ context: name, url, server: info })
  out.line(`signed in to ${url} as ${info.you.name} (${info.you.role}); context ${name} is now current`)
  out.note('next: tenon doctor')
}

async function readToken(cli: Cli, file: string | undefined): Promise<string> {
  if (file !== undefined) return readTokenFile(resolve(cli.io.cwd, file))
  if (cli.io.stdin.isTTY) return checkToken((await readHidden(cli.io, 'token: ')).toString(), 'the prompt')
  return checkToken((await readPiped(cli.io.stdin, 4096)).toString(), 'stdin')
}
