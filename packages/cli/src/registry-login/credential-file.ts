import { realpath } from 'node:fs/promises'
import { z } from 'zod'
import { readJson, replaceJson } from '../config/private-file.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

/** Docker's format, which all the tools share. Whatever else stands in the file stays as it is. */
export type CredentialFile = Record<string, unknown>

const known = z.looseObject({
  auths: z.record(z.string(), z.unknown()).nullish(),
  credsStore: z.string().optional(),
  credHelpers: z.record(z.string(), z.string()).nullish(),
})

const entry = z.looseObject({ auth: z.string() })

/** An absent file is an empty one; one that is not of this format is refused with its name. */
export async function readCredentialFile(path: string): Promise<CredentialFile> {
  return (await readJson(path, z.record(z.string(), z.unknown()).and(known))) ?? {}
}

/** Through a link, to the file that it names. */
export async function writeCredentialFile(path: string, file: CredentialFile): Promise<void> {
  await replaceJson(await realpath(path).catch(() => path), file)
}

/** Tools that keep their credentials in a program would not look at an entry of the file. */
export function requireOwnEntries(path: string, file: CredentialFile, registry: string): void {
  const { credsStore, credHelpers } = known.parse(file)
  const helper = credHelpers?.[registry] || credsStore
  if (!helper) return
  throw new CliError(EXIT.conflict, `${path} leaves credentials to the program docker-credential-${helper}`, {
    next: 'use a folder of its own: DOCKER_CONFIG=$HOME/.docker-tenon tenon registry login (and the same for the tools), or --print',
  })
}

/** Pure. */
export function withEntry(
  file: CredentialFile,
  registry: string,
  { username, password }: { username: string; password: string },
): CredentialFile {
  const auth = Buffer.from(`${username}:${password}`).toString('base64')
  return { ...file, auths: { ...known.parse(file).auths, [registry]: { auth } } }
}

/** Pure: the file without what this program put there, and whose it was; undefined when it holds nothing of the kind. */
export function withoutEntry(
  file: CredentialFile,
  registry: string,
): { file: CredentialFile; username: string } | undefined {
  const { [registry]: found, ...others } = known.parse(file).auths ?? {}
  const read = entry.safeParse(found)
  if (!read.success) return undefined
  const [username = ''] = Buffer.from(read.data.auth, 'base64').toString('utf8').split(':')
  return username.startsWith('rlg_') ? { file: { ...file, auths: others }, username } : undefined
}
