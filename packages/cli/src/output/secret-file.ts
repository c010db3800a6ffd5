import { open, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Cli } from '../cli.ts'
import { CliError, errorCode } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

export const OUT = ['--out <file>', 'write it into this new file, which only you can read'] as const

/**
 * Makes a secret and shows it once: alone on stdout, or in a new file of mode 600. The file is there before the secret
 * is made, so that none is lost for want of a place.
 */
export async function showSecret<T>(
  cli: Cli,
  out: string | undefined,
  make: () => Promise<T>,
  secretOf: (made: T) => string,
): Promise<T> {
  if (out === undefined) {
    const made = await make()
    if (cli.globals.json) cli.out.json(made)
    else cli.out.line(secretOf(made))
    return made
  }
  const path = resolve(cli.io.cwd, out)
  const file = await open(path, 'wx', 0o600).catch((cause: unknown) => {
    const next = errorCode(cause) === 'EEXIST' ? 'name a file that does not exist' : 'name another file'
    throw new CliError(EXIT.usage, `cannot write ${path} (${errorCode(cause)})`, { next, cause })
  })
  try {
    const made = await make()
    await file.writeFile(`${cli.globals.json ? JSON.stringify(made, null, 2) : secretOf(made)}\n`)
    return made
  } catch (cause) {
    await rm(path, { force: true })
    throw cause
  } finally {
    await file.close()
  }
}
