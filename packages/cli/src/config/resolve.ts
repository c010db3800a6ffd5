import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { z } from 'zod'
import { CliError, errorCode, usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import type { Io } from '../io.ts'
import { checkToken, checkUrl, isLoopback, readConfig } from './contexts.ts'
import { stateFile } from './paths.ts'
import { readJson } from './private-file.ts'

export interface Connection {
  url: string
  token: string
  /** In words, for `doctor` and `contexts`. */
  from: string
  /** Where this machine keeps what it knows of that server. */
  knownFile: string
}

type Where = Pick<Io, 'env' | 'host' | 'cwd'>

/** Which server and token: `--context`, the environment, the folder of TENON_DIR, the current context, the folder one is in. */
export async function resolveConnection(io: Where, named: string | undefined): Promise<Connection> {
  const found =
    named === undefined
      ? ((await fromEnvironment(io)) ?? (await withoutUrl(io)))
      : await namedContext(io, named)
  if (found) return found
  throw new CliError(EXIT.denied, 'not signed in to a server', {
    next: 'tenon login --url URL (or run it in a folder where `npm start` runs a server)',
  })
}

async function withoutUrl(io: Where): Promise<Connection | undefined> {
  const named = io.env['TENON_DIR']
  if (!named) return (await currentContext(io)) ?? (await fromFolder(io))
  const found = await fromFolder(io)
  if (found) return found
  throw new CliError(
    EXIT.denied,
    `TENON_DIR is set, but ${resolve(io.cwd, named)} is no folder of a server`,
    {
      next: 'start one there with `npm start`, or unset TENON_DIR to use the current context',
    },
  )
}

async function namedContext(io: Where, name: string): Promise<Connection> {
  const { contexts } = await readConfig(io)
  const found = Object.hasOwn(contexts, name) ? contexts[name] : undefined
  if (found) return { ...found, from: `context ${name}`, knownFile: stateFile(io) }
  const known = Object.keys(contexts)
  throw new CliError(EXIT.notFound, `there is no context named ${JSON.stringify(name)}`, {
    next: known.length > 0 ? `known ones: ${known.join(', ')}` : `tenon login --url URL --name ${name}`,
  })
}

async function currentContext(io: Where): Promise<Connection | undefined> {
  const { current, contexts } = await readConfig(io)
  if (current === null || !Object.hasOwn(contexts, current)) return undefined
  return { ...contexts[current]!, from: `context ${current}`, knownFile: stateFile(io) }
}

/** TENON_TOKEN alone replaces the token; TENON_URL alone takes a stored token only when it was stored for that address. */
async function fromEnvironment(io: Where): Promise<Connection | undefined> {
  const url = io.env['TENON_URL'] ? checkUrl(io.env['TENON_URL']) : undefined
  const token = await tokenOfEnvironment(io)
  if (url === undefined && token === undefined) return undefined
  if (url !== undefined && token !== undefined)
    return { url, token, from: 'the environment', knownFile: stateFile(io) }
  if (url === undefined) {
    const base = await withoutUrl(io)
    const name = io.env['TENON_TOKEN'] ? 'TENON_TOKEN' : 'TENON_TOKEN_FILE'
    if (!base) throw usageError(`${name} is set but no server is known`, 'set TENON_URL as well')
    return { ...base, token: token!, from: `${base.from}, with the token of the environment` }
  }
  const stored = Object.entries((await readConfig(io)).contexts).find(([, context]) => context.url === url)
  if (stored) {
    const from = `TENON_URL, with the token of context ${stored[0]}`
    return { url, token: stored[1].token, from, knownFile: stateFile(io) }
  }
  throw new CliError(EXIT.denied, `TENON_URL is set but there is no token for ${url}`, {
    next: `set TENON_TOKEN_FILE, or sign in: tenon login --url ${url}`,
  })
}

async function tokenOfEnvironment(io: Where): Promise<string | undefined> {
  if (io.env['TENON_TOKEN']) return checkToken(io.env['TENON_TOKEN'], 'TENON_TOKEN')
  const file = io.env['TENON_TOKEN_FILE']
  return file ? readTokenFile(resolve(io.cwd, file)) : undefined
}

export async function readTokenFile(path: string): Promise<string> {
  try {
    return checkToken(await readFile(path, 'utf8'), path)
  } catch (cause) {
    if (cause instanceof CliError) throw cause
    throw new CliError(EXIT.usage, `cannot read the token file ${path}: ${errorCode(cause) ?? 'unknown'}`, {
      next: 'check the path and its permissions',
      cause,
    })
  }
}

const folderFile = z.object({ url: z.string(), tokenFile: z.string() })

/**
 * `.tenon/cli.json`, written by `npm start`, upwards from here or where TENON_DIR says. Anybody's clone may hold such a file, so it can
 * only name a server on this machine and a token inside its own folder.
 */
async function fromFolder(io: Where): Promise<Connection | undefined> {
  const path = await findFolderFile(io)
  const found = path === undefined ? undefined : await readJson(path, folderFile)
  return path !== undefined && found ? checkFolderFile(path, found) : undefined
}

async function findFolderFile(io: Where): Promise<string | undefined> {
  const named = io.env['TENON_DIR']
  if (named) {
    const path = resolve(io.cwd, named, 'cli.json')
    return (await isFile(path)) ? path : undefined
  }
  for (let folder = resolve(io.cwd); ; folder = dirname(folder)) {
    const path = join(folder, '.tenon', 'cli.json')
    if (await isFile(path)) return path
    if (dirname(folder) === folder) return undefined
  }
}

/** Where knowledge of servers lies, seen from here: the user's own, and that of the folder's server. */
export async function knownFiles(io: Where): Promise<string[]> {
  const path = await findFolderFile(io)
  return path === undefined ? [stateFile(io)] : [stateFile(io), besides(path)]
}

/** What is known of a folder's server goes when the folder goes: the next server there is another one. */
function besides(folderFile: string): string {
  return join(dirname(folderFile), 'known-servers.json')
}

async function checkFolderFile(path: string, found: z.infer<typeof folderFile>): Promise<Connection> {
  const url = checkUrl(found.url)
  const next = `remove ${path}, or sign in to the server you mean: tenon login --url URL`
  if (!isLoopback(url)) {
    throw new CliError(EXIT.usage, `${path} names ${url}, which is not on this machine`, { next })
  }
  const own = await realpath(dirname(path))
  const tokenFile = await realpath(resolve(dirname(path), found.tokenFile)).catch(() => undefined)
  if (tokenFile === undefined) {
    throw new CliError(EXIT.denied, `the token file that ${path} names is absent`, { next })
  }
  if (!tokenFile.startsWith(own + sep)) {
    throw new CliError(EXIT.usage, `${path} names a token file outside of ${own}`, { next })
  }
  return { url, token: await readTokenFile(tokenFile), from: path, knownFile: besides(path) }
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  )
}
