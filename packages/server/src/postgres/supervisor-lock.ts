import { linkSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { PostgresError, errorCode } from './errors.ts'
import { type ProcessIdentity, identify, isAlive } from './process-table.ts'

/**
 * One supervisor per data folder. The lock is the file with the highest number, `<path>.<n>`. TakenSlots it over
 * means being the first to create n + 1, so two that see the same dead holder cannot both win. The highest
 * file is never removed, only marked free: a number is thus never used twice.
 */
export function acquireLock(path: string, now: () => Date = () => new Date()): { release(): void } {
  const self = identify(process.pid)
  if (self === undefined) throw new PostgresError('postgres_start_failed', 'cannot identify the own process')
  for (;;) {
    const last = newest(path)
    const holder = last === 0 ? undefined : readHolder(`${path}.${last}`)
    if (holder === 'gone') continue
    if (holder !== undefined && isAlive(holder)) throw inUse(path, holder)
    const mine = `${path}.${last + 1}`
    const text = JSON.stringify({ ...self, since: now().toISOString() })
    if (!createWhole(mine, text)) continue
    if (newest(path) !== last + 1) {
      rmSync(mine, { force: true })
      continue
    }
    for (const number of numbers(path)) if (number <= last) rmSync(`${path}.${number}`, { force: true })
    return { release: () => replaceWhole(mine, '{"free":true}') }
  }
}

function inUse(path: string, holder: ProcessIdentity): PostgresError {
  return new PostgresError(
    'postgres_data_in_use',
    `the data folder ${path.replace(/\.lock$/, '')} is in use by process ${holder.pid}; ` +
      'stop that process, or choose another data folder',
  )
}

function numbers(path: string): number[] {
  const prefix = `${basename(path)}.`
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length)))
    .map((name) => Number(name.slice(prefix.length)))
}

function newest(path: string): number {
  return Math.max(0, ...numbers(path))
}

/** undefined: held by nobody; 'gone': somebody has just moved on to a higher number. */
function readHolder(file: string): ProcessIdentity | 'gone' | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    if (typeof value !== 'object' || value === null || !('pid' in value) || !('startedAt' in value))
      return undefined
    const { pid, startedAt } = value
    return typeof pid === 'number' && typeof startedAt === 'string' ? { pid, startedAt } : undefined
  } catch (error) {
    return errorCode(error) === 'ENOENT' ? 'gone' : undefined
  }
}

/** A link makes the file appear with its whole content or not at all; false when the name is taken. */
function createWhole(file: string, text: string): boolean {
  const draft = join(dirname(file), `.${basename(file)}.${process.pid}`)
  writeFileSync(draft, text, { mode: 0o600 })
  try {
    linkSync(draft, file)
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

function replaceWhole(file: string, text: string): void {
  const draft = join(dirname(file), `.${basename(file)}.${process.pid}`)
  writeFileSync(draft, text, { mode: 0o600 })
  renameSync(draft, file)
}
