import { readdir, readFile } from 'node:fs/promises'

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

export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const stat = await readStat(pid)
  return stat && { pid, startTime: stat.startTime, bootId: await bootId() }
}

export async function isAlive(identity: ProcessIdentity): Promise<boolean> {
  const stat = await readStat(identity.pid)
  if (stat === undefined || isDead(stat) || stat.startTime !== identity.startTime) return false
  return identity.bootId === (await bootId())
}

/** All living processes of the given sessions; with `marked`, also those that left them but keep the temporary folder. */
export async function jobProcesses(
  sessions: number[],
  temporaryFolder: string,
  marked: boolean,
): Promise<number[]> {
  const found: number[] = []
  const own = new Set<number>()
  for (const session of sessions) if (await isOwn(session, temporaryFolder)) own.add(session)
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const stat = await readStat(pid)
    if (stat === undefined || isDead(stat)) continue
    const isOurs = own.has(stat.session) || (marked && (await hasTemporaryFolder(pid, temporaryFolder)))
    if (isOurs) found.push(pid)
  }
  return found
}

/** What these processes hold for themselves alone, in bytes: resident pages without the shared ones. */
export async function residentBytes(pids: number[]): Promise<number> {
  let pages = 0
  for (const pid of pids) {
    const [, resident = '0', shared = '0'] = (await read(`/proc/${pid}/statm`))?.split(' ') ?? []
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

async function readStat(pid: number): Promise<ProcessStat | undefined> {
  const text = await read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name stands in parentheses and may hold spaces and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { pid, state: fields[0] ?? '', session: Number(fields[3]), startTime: fields[19] ?? '' }
}

/** While its first process lives, a session is known by it; its number may have passed on to a stranger. */
async function isOwn(session: number, temporaryFolder: string): Promise<boolean> {
  const leader = await readStat(session)
  return leader === undefined || isDead(leader) || hasTemporaryFolder(session, temporaryFolder)
}

async function hasTemporaryFolder(pid: number, folder: string): Promise<boolean> {
  const environment = await read(`/proc/${pid}/environ`)
  return environment?.split('\0').includes(`TMPDIR=${folder}`) ?? false
}

function isDead(stat: ProcessStat): boolean {
  return stat.state === 'Z' || stat.state === 'X'
}

async function bootId(): Promise<string> {
  return (await read('/proc/sys/kernel/random/boot_id'))?.trim() ?? ''
}

async function read(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(() => undefined)
}
