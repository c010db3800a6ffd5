import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fchownSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import type { Account } from './account.ts'
import { PostgresError, errorCode } from './errors.ts'

/** Reads the stored password of an existing database. */
export function readPassword(file: string): string {
  try {
    const password = readFileSync(file, 'utf8').trim()
    if (password !== '') return password
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw missing(file, cause)
  }
  throw missing(file)
}

/** Stored before the database exists, so that no database is ever left without its password. */
export function storePassword(file: string, password = randomBytes(24).toString('base64url')): string {
  const draft = `${file}.draft`
  rmSync(draft, { force: true })
  writePrivate(draft, password, undefined)
  renameSync(draft, file)
  return password
}

/**
 * An open file without a name, for initdb to read as its standard input: it works where initdb's account
 * cannot reach the folder, and the password is in no argument and in no file that could stay behind.
 */
export function openForInitdb(beside: string, password: string, account: Account | undefined): number {
  const draft = `${beside}.initdb`
  rmSync(draft, { force: true })
  writePrivate(draft, password, account)
  const descriptor = openSync(draft, 'r')
  rmSync(draft)
  return descriptor
}

function writePrivate(file: string, password: string, account: Account | undefined): void {
  const descriptor = openSync(file, 'wx', 0o600)
  try {
    writeSync(descriptor, `${password}\n`)
    if (account !== undefined) fchownSync(descriptor, account.uid, account.gid)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

function missing(file: string, cause?: unknown): PostgresError {
  return new PostgresError(
    'postgres_data_broken',
    `the database's password file ${file} is missing or unreadable; restore it from a backup, ` +
      'pass the password, or move the data folder away to begin with an empty database',
    cause === undefined ? {} : { cause },
  )
}
