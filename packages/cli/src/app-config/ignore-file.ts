import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '../errors.ts'
import { CONFIG_BESIDE_SOURCE } from './find-files.ts'

const IGNORE_FILE = '.tenonignore'
/** Neither history nor a local server's data is part of a source, nor is the config that lies beside it. */
const ALWAYS = ['.git', '.tenon', IGNORE_FILE, `/${CONFIG_BESIDE_SOURCE}`]

/** What of a source folder is not sent: the lines of its `.tenonignore`, as in a simple `.gitignore`. */
export async function readIgnore(folder: string): Promise<(path: string) => boolean> {
  const lines = (await readLines(join(folder, IGNORE_FILE))).map((line) => line.trim())
  const patterns = [...ALWAYS, ...lines.filter((line) => line !== '' && !line.startsWith('#'))].map(toPattern)
  return (path) => patterns.some((pattern) => pattern.test(path))
}

/** With a slash inside it counts from the folder, without one it is a name anywhere; `*` stays within one name. */
function toPattern(line: string): RegExp {
  const bare = line.replace(/^\/+|\/+$/g, '')
  const anchored = line.replace(/\/+$/, '').includes('/')
  const body = bare
    .split(/(\*\*\/?|\*|\?)/)
    .map((part) => WILD[part] ?? part.replace(/[.+^${}()|[\]\\]/g, '\\$&'))
    .join('')
  return new RegExp(`${anchored ? '^' : '(?:^|/)'}${body}$`)
}

const WILD: Record<string, string> = { '**/': '(?:[^/]+/)*', '**': '.*', '*': '[^/]*', '?': '[^/]' }

async function readLines(path: string): Promise<string[]> {
  try {
    return (await readFile(path, 'utf8')).split('\n')
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return []
    throw cause
  }
}
