import { readFileSync, statSync } from 'node:fs'
import { PostgresError } from './errors.ts'

/** PostgreSQL refuses to run as root; undefined means: as whoever we are. */
export type Account = { uid: number; gid: number; name: string }

const preferred = ['tenon', 'postgres', 'nobody']

/** The owner of an existing data folder stays its owner; a new one goes to the first account we know. */
export function chooseAccount(
  uid: number | undefined,
  passwd: string,
  owner: { uid: number; gid: number } | undefined,
): Account | undefined {
  if (uid !== 0) return undefined
  const accounts = parsePasswd(passwd).filter((account) => account.uid !== 0)
  if (owner !== undefined && owner.uid !== 0) {
    return accounts.find((account) => account.uid === owner.uid) ?? { ...owner, name: `#${owner.uid}` }
  }
  for (const name of preferred) {
    const found = accounts.find((account) => account.name === name)
    if (found !== undefined) return found
  }
  const any = accounts[0]
  if (any !== undefined) return any
  throw new PostgresError(
    'postgres_no_account',
    'PostgreSQL does not run as root and /etc/passwd names no other account; ' +
      'start as another user, add one (useradd --system tenon), or set DATABASE_URL to a PostgreSQL of your own',
  )
}

/** initdb wants its account in /etc/passwd, a running PostgreSQL does not: only an existing database has a say. */
export function accountFor(existing: string | undefined): Account | undefined {
  const owner = existing === undefined ? undefined : ownerOf(existing)
  return chooseAccount(process.geteuid?.(), readPasswd(), owner)
}

/** What spawn needs to drop to the account. */
export function credentials(account: Account | undefined): { uid?: number; gid?: number } {
  return account === undefined ? {} : { uid: account.uid, gid: account.gid }
}

function parsePasswd(text: string): Account[] {
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 7)
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter((account) => Number.isSafeInteger(account.uid) && Number.isSafeInteger(account.gid))
}

function readPasswd(): string {
  try {
    return readFileSync('/etc/passwd', 'utf8')
  } catch {
    return ''
  }
}

function ownerOf(path: string): { uid: number; gid: number } | undefined {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? undefined : { uid: stat.uid, gid: stat.gid }
}
