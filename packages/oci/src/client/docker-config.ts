import { OciError } from '../errors.ts'
import { basicCredentials } from './credentials.ts'
import type { Credentials } from './credentials.ts'

/** Finds the credentials of a registry; undefined when the file has none for it. */
export type CredentialFile = (registry: string) => Credentials | undefined

/** Reads what `docker login`, `podman login` and `helm registry login` write: `{"auths": {"host": {"auth": …}}}`. */
export const parseCredentialFile = (text: string): CredentialFile => {
  const auths = readAuths(text)
  return (registry) => {
    for (const name of namesOf(registry)) {
      const entry = auths.get(name)
      if (entry !== undefined) return entry
    }
    return undefined
  }
}

const readAuths = (text: string): Map<string, Credentials> => {
  const body = parse(text)
  const entries = Object.entries(body.auths ?? {}).flatMap(([name, entry]) => {
    const credentials = credentialsOf(entry)
    return credentials === undefined ? [] : [[hostOf(name), credentials] as const]
  })
  return new Map(entries)
}

const parse = (text: string): { auths?: Record<string, unknown> } => {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value
  } catch (cause) {
    throw unusable(cause)
  }
  throw unusable()
}

const credentialsOf = (entry: unknown): Credentials | undefined => {
  const { auth, username, password, registrytoken } = (entry ?? {}) as Record<string, unknown>
  if (typeof registrytoken === 'string' && registrytoken !== '')
    return async () => ({ bearer: registrytoken })
  if (typeof username === 'string' && typeof password === 'string')
    return basicCredentials(username, password)
  if (typeof auth !== 'string' || auth === '') return undefined
  const [, name, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(auth, 'base64').toString('utf8')) ?? []
  if (name === undefined || secret === undefined) throw unusable()
  return basicCredentials(name, secret)
}

/** Docker writes its hub as an address; the others are hosts. */
const hostOf = (name: string): string => name.replace(/^https?:\/\//, '').replace(/\/.*$/, '')

const namesOf = (registry: string): string[] =>
  registry === 'docker.io' ? ['docker.io', 'index.docker.io', 'registry-1.docker.io'] : [registry]

const unusable = (cause?: unknown): OciError =>
  new OciError('TOKEN_INVALID', 'The file of registry credentials is not what `docker login` writes', {
    cause,
  })
