import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Program } from './program.ts'

/** Remembers which processes were started here, so that a start after a kill -9 first ends what was left. */
export interface RunRecord {
  remember(program: Program): void
  /** Takes the folder for this process; the pid of another one that has it and lives, otherwise undefined. */
  claim(): number | undefined
  /** Ends what an earlier life left running; returns their names. */
  endOrphans(): Promise<string[]>
}

const OWNER = 'start.json'
const PATIENCE_MS = 20_000

export function openRunRecord(dir: string): RunRecord {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  return {
    claim() {
      const owner = join(dir, OWNER)
      const [other] = readRecord(owner)
      if (other && other.pid !== process.pid && isAlive(other)) return other.pid
      const own = { name: 'npm start', pid: process.pid, started: startTime(process.pid) }
      writeFileSync(owner, JSON.stringify(own), { mode: 0o600 })
      return undefined
    },
    remember(program) {
      const file = join(dir, `${program.name}.json`)
      writeFileSync(
        file,
        JSON.stringify({ name: program.name, pid: program.pid, started: startTime(program.pid) }),
      )
      void program.exited.then(() => rmSync(file, { force: true }))
    },
    async endOrphans() {
      const files = readdirSync(dir).filter((file) => file !== OWNER)
      const alive = files.flatMap((file) => readRecord(join(dir, file))).filter(isAlive)
      for (const record of alive) process.kill(record.pid, 'SIGTERM')
      const deadline = Date.now() + PATIENCE_MS
      for (const record of alive) {
        while (startTime(record.pid) === record.started) {
          if (Date.now() > deadline) process.kill(record.pid, 'SIGKILL')
          await pause(50)
        }
      }
      for (const file of files) rmSync(join(dir, file), { force: true })
      return alive.map((record) => record.name)
    },
  }
}

interface Started {
  name: string
  pid: number
  started: string
}

function isAlive({ pid, started }: Started): boolean {
  return started !== '' && startTime(pid) === started
}

function readRecord(file: string): Started[] {
  try {
    return [JSON.parse(readFileSync(file, 'utf8')) as Started]
  } catch {
    return []
  }
}

/** When a process started, from the kernel: a pid that was given to another program has another one. Empty when it is gone. */
function startTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? '' : (fields[19] ?? '')
  } catch {
    return ''
  }
}
