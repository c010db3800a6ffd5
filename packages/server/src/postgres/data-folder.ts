import {
  accessSync,
  chmodSync,
  constants,
  lchownSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { Account } from './account.ts'
import { PostgresError, errorCode } from './errors.ts'

/** What stands beside the data folder: PostgreSQL owns all that is inside. */
export type Siblings = { lock: string; log: string; password: string; draftPrefix: string }

export function siblingsOf(dataDir: string): Siblings {
  return {
    lock: `${dataDir}.lock`,
    log: `${dataDir}.log`,
    password: `${dataDir}.password`,
    draftPrefix: `${dataDir}.new-`,
  }
}

export type FolderFacts = { entries: string[] | undefined; version: string | undefined }

/** Decides from what is seen; the way out is part of the refusal. */
export function judgeFolder(dataDir: string, facts: FolderFacts, major: string): 'new' | 'cluster' {
  const entries = facts.entries?.filter((name) => name !== 'lost+found')
  if (entries === undefined || entries.length === 0) return 'new'
  if (facts.version === undefined) {
    throw broken(
      `the folder ${dataDir} is not empty and holds no PostgreSQL database (PG_VERSION is missing); ` +
        'restore it from a backup, or move it away to begin with an empty database',
    )
  }
  if (facts.version !== major) {
    throw broken(
      `the database in ${dataDir} was made by PostgreSQL ${facts.version}, this is PostgreSQL ${major}; ` +
        `dump it with version ${facts.version} and restore it into a new folder, or go back to the release that made it`,
    )
  }
  if (!entries.includes('global') || !entries.includes('base') || !entries.includes('pg_wal')) {
    throw broken(
      `the database in ${dataDir} is incomplete (global, base or pg_wal is missing); ` +
        'restore it from a backup, or move it away to begin with an empty database',
    )
  }
  return 'cluster'
}

export function readFolder(dataDir: string): FolderFacts {
  try {
    const entries = readdirSync(dataDir)
    const version = entries.includes('PG_VERSION')
      ? readFileSync(join(dataDir, 'PG_VERSION'), 'utf8').trim()
      : undefined
    return { entries, version }
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return { entries: undefined, version: undefined }
    throw broken(
      `the data folder ${dataDir} cannot be read; check that it is a folder and whose it is`,
      cause,
    )
  }
}

export function requireWritableParent(dataDir: string): void {
  const parent = dirname(dataDir)
  try {
    mkdirSync(parent, { recursive: true, mode: 0o700 })
    accessSync(parent, constants.W_OK | constants.X_OK)
  } catch (cause) {
    throw broken(
      `the folder ${parent} is not writable; change its owner or choose another data folder`,
      cause,
    )
  }
}

/** PostgreSQL insists on owning its folder and on nobody else being able to read it. */
export function giveTo(dataDir: string, account: Account | undefined): void {
  const stat = statSync(dataDir)
  try {
    if (account !== undefined && stat.uid !== account.uid) chownTree(dataDir, account)
    if ((stat.mode & 0o777) !== 0o700 && (stat.mode & 0o777) !== 0o750) chmodSync(dataDir, 0o700)
    if (account === undefined) accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (cause) {
    throw notOurs(dataDir, cause)
  }
  if (account === undefined && process.geteuid !== undefined && stat.uid !== process.geteuid()) {
    throw notOurs(dataDir)
  }
}

function notOurs(dataDir: string, cause?: unknown): PostgresError {
  return broken(
    `the data folder ${dataDir} belongs to somebody else or is not writable; ` +
      'start as its owner, change its owner (chown -R), or choose another data folder',
    cause,
  )
}

function chownTree(path: string, account: Account): void {
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const at = join(path, entry.name)
    if (entry.isDirectory()) chownTree(at, account)
    else lchownSync(at, account.uid, account.gid)
  }
  lchownSync(path, account.uid, account.gid)
}

function broken(message: string, cause?: unknown): PostgresError {
  return new PostgresError('postgres_data_broken', message, cause === undefined ? {} : { cause })
}
