import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync, statSync } from 'node:fs'

/** A process named so that a reused pid is not mistaken for it. */
export type ProcessIdentity = { pid: number; startedAt: string }

export const hasProc = process.platform === 'linux'

/** undefined when no such process runs; a zombie does not run. */
export function identify(pid: number): ProcessIdentity | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  const startedAt = hasProc ? startFromProc(pid) : startFromPs(pid)
  return startedAt === undefined ? undefined : { pid, startedAt }
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startedAt === identity.startedAt
}

/** State and start tick of a /proc/<pid>/stat line; the name in it may hold spaces and brackets. */
export function parseStat(stat: string): { state: string; startTick: string } | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, startTick] = [fields[0], fields[19]]
  return state === undefined || startTick === undefined ? undefined : { state, startTick }
}

/** Processes named postgres that work inside this folder, whichever path led them there. */
export function postgresProcessesIn(folder: string): ProcessIdentity[] {
  if (!hasProc) return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && runsPostgresIn(Number(name), folder))
    .map((name) => identify(Number(name)))
    .filter((found) => found !== undefined)
}

/** Without /proc only the name of the program can be compared. */
export function runsPostgresIn(pid: number, folder: string): boolean {
  if (!hasProc) return /postgres/.test(ps(pid, 'comm='))
  try {
    if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() !== 'postgres') return false
    const [theirs, ours] = [statSync(`/proc/${pid}/cwd`), statSync(folder)]
    return theirs.dev === ours.dev && theirs.ino === ours.ino
  } catch {
    return false
  }
}

export function signal(identity: ProcessIdentity, name: NodeJS.Signals): void {
  if (!isAlive(identity)) return
  try {
    process.kill(identity.pid, name)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

function startFromProc(pid: number): string | undefined {
  try {
    const parsed = parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    if (parsed === undefined || 'ZX'.includes(parsed.state)) return undefined
    return `${bootId()}:${parsed.startTick}`
  } catch {
    return undefined
  }
}

function startFromPs(pid: number): string | undefined {
  const answer = ps(pid, 'stat=,lstart=')
  return answer === '' || answer.startsWith('Z') ? undefined : answer.replace(/^\S+\s+/, '')
}

function ps(pid: number, columns: string): string {
  try {
    return execFileSync('ps', ['-o', columns, '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return ''
  }
}

/** Start ticks count from boot, so they mean something only together with the boot. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return 'boot'
  }
}
