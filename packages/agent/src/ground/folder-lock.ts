import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { readIfThere } from './durable-file.ts'
import { AgentError } from './errors.ts'

export interface FolderLock {
  release(): Promise<void>
}

/** A command holds the folder for moments only: an agent that starts meanwhile waits for it. */
const COMMAND_PATIENCE_MS = 10_000
const LOOK_AGAIN_MS = 20

/** One process per agent folder. A lock whose process is gone is taken over. */
export async function lockFolder(dir: string, purpose: 'agent' | 'command' = 'agent'): Promise<FolderLock> {
  const file = path.join(dir, 'agent.lock')
  const mine = JSON.stringify({ ...(await describeProcess(process.pid)), purpose })
  const draft = `${file}.${process.pid}`
  await writeFile(draft, mine, { mode: 0o600 })
  try {
    const deadline = performance.now() + COMMAND_PATIENCE_MS
    for (let attempt = 0; attempt < 10; attempt++) {
      if (await tryLink(draft, file)) return { release: () => rm(file, { force: true }) }
      const holder = await readIfThere(file)
      if (holder === undefined) continue
      if (await isAlive(holder)) {
        if (parseMark(holder)?.purpose !== 'command' || performance.now() > deadline) throw inUse(dir, holder)
        await pause(LOOK_AGAIN_MS)
        attempt = 0
        continue
      }
      await takeAway(file, holder)
    }
    throw inUse(dir, (await readIfThere(file)) ?? '')
  } finally {
    await rm(draft, { force: true })
  }
}

interface ProcessMark {
  pid: number
  /** A pid alone may name another process tomorrow; the start time and the boot make it certain. */
  startTime: string
  boot: string
  purpose?: 'agent' | 'command'
}

/** The process that holds the folder now. */
export async function folderHolder(dir: string): Promise<number | undefined> {
  const holder = await readIfThere(path.join(dir, 'agent.lock'))
  return holder !== undefined && (await isAlive(holder)) ? parseMark(holder)?.pid : undefined
}

async function describeProcess(pid: number): Promise<ProcessMark> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')
  const startTime = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  return { pid, startTime, boot: boot.trim() }
}

async function isAlive(holder: string): Promise<boolean> {
  const mark = parseMark(holder)
  if (!mark) return false
  try {
    process.kill(mark.pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
  }
  const now = await describeProcess(mark.pid)
  return now.startTime === mark.startTime && now.boot === mark.boot
}

function parseMark(text: string): ProcessMark | undefined {
  try {
    const value = JSON.parse(text) as ProcessMark
    return Number.isInteger(value.pid) && value.pid > 0 ? value : undefined
  } catch {
    return undefined
  }
}

async function tryLink(draft: string, file: string): Promise<boolean> {
  return link(draft, file).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false
      throw error
    },
  )
}

/** Two processes may find the same stale lock: whoever moved a fresh one away by mistake puts it back. */
async function takeAway(file: string, stale: string): Promise<void> {
  const aside = `${file}.stale.${process.pid}`
  const moved = await rename(file, aside).then(
    () => true,
    () => false,
  )
  if (!moved) return
  if ((await readFile(aside, 'utf8')) !== stale) await tryLink(aside, file)
  await rm(aside, { force: true })
}

function inUse(dir: string, holder: string): AgentError {
  const pid = parseMark(holder)?.pid
  return new AgentError(
    'folder_in_use',
    `The folder ${dir} is used by another agent process${pid ? ` (pid ${pid})` : ''}.`,
    'Stop that process, or give this agent a folder of its own with --dir.',
  )
}
