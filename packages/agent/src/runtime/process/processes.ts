import { readdirSync, readFileSync } from 'node:fs'

/** A pid alone may name another process tomorrow: the start time and the boot make it certain. */
export interface ProcessIdentity {
  pid: number
  startTime: string
  bootId: string
}

interface ProcessStat {
  pid: number
  state: string
  session: number
  startTime: string
}

export function identify(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid)
  return stat && { pid, startTime: stat.startTime, bootId: bootId() }
}

export function isAlive(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid)
  if (stat === undefined || isDead(stat) || stat.startTime !== identity.startTime) return false
  return identity.bootId === bootId()
}

/** All living processes of the given sessions; with `marked`, also those that left them but keep the temporary folder. */
export function jobProcesses(sessions: number[], temporaryFolder: string, marked: boolean): number[] {
  const found: number[] = []
  const own = new Set<number>()
  for (const session of sessions) if (isOwn(session, temporaryFolder)) own.add(session)
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const stat = readStat(pid)
    if (stat === undefined || isDead(stat)) continue
    const isOurs = own.has(stat.session) || (marked && hasTemporaryFolder(pid, temporaryFolder))
    if (isOurs) found.push(pid)
  }
  return found
}

/** What these processes hold for themselves alone, in bytes: resident pages without the shared ones. */
export function residentBytes(pids: number[]): number {
  let pages = 0
  for (const pid of pids) {
    const [, resident = '0', shared = '0'] = read(`/proc/${pid}/statm`)?.split(' ') ?? []
    pages += Math.max(0, Number(resident) - Number(shared))
  }
  return pages * 4096
}

/** Kills until `find` finds nothing: a process may fork while it is being looked for. */
export async function killAll(find: () => Promise<number[]>): Promise<void> {
  for (let round = 0; round < 500; round++) {
    const pids = await find()
    if (pids.length === 0) return
    for (const pid of pids) sendSignal(pid, 'SIGKILL')
    await new Promise((resolve) => setTimeout(resolve, Math.min(2 + round, 50)))
  }
  throw new Error('Processes of the job do not die after SIGKILL. Look for ones in state D with `ps`.')
}

export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function readStat(pid: number): ProcessStat | undefined {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name stands in parentheses and may hold spaces and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { pid, state: fields[0] ?? '', session: Number(fields[3]), startTime: fields[19] ?? '' }
}

/** A session is ours while its first process lives and is marked: its number may long have passed on to a stranger. */
function isOwn(session: number, temporaryFolder: string): boolean {
  const leader = readStat(session)
  return leader !== undefined && !isDead(leader) && hasTemporaryFolder(session, temporaryFolder)
}

function hasTemporaryFolder(pid: number, folder: string): boolean {
  const environment = read(`/proc/${pid}/environ`)
  return environment?.split('\0').includes(`TMPDIR=${folder}`) ?? false
}

function isDead(stat: ProcessStat): boolean {
  return stat.state === 'Z' || stat.state === 'X'
}

function bootId(): string {
  return read('/proc/sys/kernel/random/boot_id')?.trim() ?? ''
}

/** Synchronous: a file of `/proc` is no disk access, and the way through the thread pool takes ten times as long. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
