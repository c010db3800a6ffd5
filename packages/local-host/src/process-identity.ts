import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'

/**
 * Who a process is beyond its number, which the system hands out again: the boot it belongs to and its
 * start time. Written by the process itself before it becomes the service, so no crash can lose it.
 */
export interface ProcessRecord {
  version: string
  bootId: string
  pid: number
  startTime: string
}

/** Arguments: record file, version, then the command. `$$` stays the same process through `exec`. */
export const LAUNCH_SCRIPT = `
(
  printf '%s\\n' "$2"
  if [ -r /proc/$$/stat ]; then cat /proc/sys/kernel/random/boot_id /proc/$$/stat
  else printf 'none\\n%s ' $$; LC_ALL=C ps -o lstart= -p $$; fi
) > "$1.tmp" && mv -f "$1.tmp" "$1" || exit 126
shift 2
exec "$@"
`

export function readProcessRecord(path: string): ProcessRecord | undefined {
  const [version, bootId, line] = readText(path)?.split('\n') ?? []
  if (!version || !bootId || !line) return undefined
  const who = bootId === 'none' ? parsePs(line) : parseStat(line)
  return who && { version, bootId, pid: who.pid, startTime: who.startTime }
}

/** The record of this very process, in the form the launch script writes. */
export function ownProcessRecord(): string {
  const stat = readText('/proc/self/stat')
  const boot = readText('/proc/sys/kernel/random/boot_id')
  if (stat && boot) return `self\n${boot}${stat}`
  return `self\nnone\n${process.pid} ${psStartTime(process.pid) ?? ''}\n`
}

/** `alive`: this very process runs. `leftover`: it is gone, but its group may not be. `gone`: nothing is left. */
export function fateOf(record: ProcessRecord): 'alive' | 'leftover' | 'gone' {
  const boot = readText('/proc/sys/kernel/random/boot_id')?.trim()
  if (boot === undefined) return psStartTime(record.pid) === record.startTime ? 'alive' : 'gone'
  if (boot !== record.bootId) return 'gone'
  const stat = readText(`/proc/${record.pid}/stat`)
  const now = stat === undefined ? undefined : parseStat(stat)
  if (!now) return 'leftover'
  // A number is not given out again while a group bears it, so another start time proves the group gone.
  if (now.startTime !== record.startTime) return 'gone'
  return now.state === 'Z' ? 'leftover' : 'alive'
}

/** A group of nothing but zombies counts as dead: where process 1 does not reap, they stay for ever. */
export function isGroupAlive(group: number): boolean {
  if (!signalGroup(group, 0)) return false
  let entries: string[]
  try {
    entries = readdirSync('/proc')
  } catch {
    return true
  }
  const numbers = entries.filter((entry) => /^\d+$/.test(entry))
  if (numbers.length === 0) return true
  return numbers.some((pid) => {
    const stat = parseStat(readText(`/proc/${pid}/stat`) ?? '')
    return stat !== undefined && stat.group === group && stat.state !== 'Z'
  })
}

export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, signal)
    return true
  } catch {
    return false
  }
}

/** The command name may hold spaces and parentheses, so fields count from the last parenthesis. */
function parseStat(line: string): Stat | undefined {
  const pid = Number.parseInt(line, 10)
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  const [state, , group] = fields
  const startTime = fields[19]
  if (!Number.isInteger(pid) || !state || !group || !startTime) return undefined
  return { pid, state, group: Number(group), startTime }
}

function parsePs(line: string): { pid: number; startTime: string } | undefined {
  const match = /^(\d+) +(.+?) *$/.exec(line)
  return match?.[1] && match[2] ? { pid: Number(match[1]), startTime: match[2] } : undefined
}

function psStartTime(pid: number): string | undefined {
  try {
    const options = { encoding: 'utf8', env: { LC_ALL: 'C', PATH: '/usr/bin:/bin' } } as const
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], options).trim()
  } catch {
    return undefined
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

interface Stat {
  pid: number
  state: string
  group: number
  startTime: string
}
