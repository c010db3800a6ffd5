import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

export interface Memory {
  rss: number
  heapUsed: number
}

/** Of this process, after full collections; needs `--expose-gc`. V8 gives pages back a while after it frees them. */
export async function collectedMemory(): Promise<Memory> {
  for (let i = 0; i < 4; i++) {
    globalThis.gc?.()
    await pause(400)
  }
  const { rss, heapUsed } = process.memoryUsage()
  return { rss, heapUsed }
}

/** Of another process, from the kernel. */
export function residentBytes(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  if (kib === undefined) throw new Error(`process ${pid} has no resident memory to read`)
  return Number(kib) * 1024
}
