import { randomBytes } from 'node:crypto'
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, isMissing } from './durable-files.ts'
import { StoreError } from './store-error.ts'

/** A lock names the life of a process, not only its number, since numbers come back after a reboot. */
interface Holder {
  pid: number
  /** Start time and boot, where the system tells them. */
  life: string | null
  nonce: string
}

const ATTEMPTS = 20

/** One process at a time; a lock whose process is gone is taken over. Returns the release. */
export async function lockFolder(dir: string): Promise<() => Promise<void>> {
  const path = join(dir, 'lock')
  const mine = JSON.stringify(await describeSelf())
  const draft = `${path}.${randomBytes(8).toString('hex')}`
  await writeFile(draft, mine, { flag: 'wx', mode: 0o600 })
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (await tryLink(draft, path)) return () => release(path, mine)
      await clearIfDead(dir, path)
    }
  } finally {
    await rm(draft, { force: true })
  }
  throw locked(dir, 'another process')
}

/** A link shows up with its content complete, so nobody ever reads half a lock. */
async function tryLink(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path)
    return true
  } catch (cause) {
    if (hasCode(cause, 'EEXIST')) return false
    throw cause
  }
}

async function clearIfDead(dir: string, path: string): Promise<void> {
  const text = await readIfThere(path)
  if (text === undefined) return
  const holder = parseHolder(text)
  if (holder && (await isAlive(holder))) throw locked(dir, `process ${holder.pid}`)
  const aside = `${path}.${randomBytes(8).toString('hex')}`
  try {
    await rename(path, aside)
  } catch (cause) {
    if (isMissing(cause)) return
    throw cause
  }
  // Somebody else may have taken the lock over since it was read: theirs goes back.
  if ((await readIfThere(aside)) !== text) await tryLink(aside, path)
  await rm(aside, { force: true })
}

async function release(path: string, mine: string): Promise<void> {
  if ((await readIfThere(path)) === mine) await rm(path, { force: true })
}

async function describeSelf(): Promise<Holder> {
  return { pid: process.pid, life: await lifeOf(process.pid), nonce: randomBytes(8).toString('hex') }
}

async function isAlive(holder: Holder): Promise<boolean> {
  try {
    process.kill(holder.pid, 0)
  } catch (cause) {
    return hasCode(cause, 'EPERM') && holder.life === (await lifeOf(holder.pid))
  }
  return holder.life === (await lifeOf(holder.pid))
}

async function lifeOf(pid: number): Promise<string | null> {
  const stat = await readIfThere(`/proc/${pid}/stat`)
  const boot = await readIfThere('/proc/sys/kernel/random/boot_id')
  if (stat === undefined || boot === undefined) return null
  // The second field is the program's name in brackets and may hold spaces; the start time is the 22nd.
  const startTime = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  return `${boot.trim()}/${startTime}`
}

function parseHolder(text: string): Holder | undefined {
  try {
    const value = JSON.parse(text) as Holder
    return Number.isInteger(value.pid) && value.pid > 0 ? value : undefined
  } catch {
    return undefined
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    if (isMissing(cause) || hasCode(cause, 'ESRCH')) return undefined
    throw cause
  }
}

function locked(dir: string, holder: string): StoreError {
  return new StoreError('store_locked', `The install store in ${dir} is in use by ${holder}. Stop it first.`)
}
