import { closeSync, copyFileSync, openSync, statSync, truncateSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { isCode } from './errors.ts'

export const MAX_LOG_BYTES = 5 * 1024 * 1024
const TAIL_BYTES = 512 * 1024
const MARKER = '--- tenon: '

/** The process holds this descriptor itself, so its output is kept also while no local-host lives. */
export function openLog(path: string): number {
  return openSync(path, 'a', 0o600)
}

export function markStart(descriptor: number, what: string): void {
  writeSync(descriptor, `${MARKER}${what}\n`)
}

export function closeLog(descriptor: number): void {
  closeSync(descriptor)
}

/** Copy and truncate: the process keeps writing to the same open file, whoever supervises it. */
export function boundLog(path: string, maxBytes: number): void {
  try {
    if (statSync(path).size <= maxBytes) return
    copyFileSync(path, `${path}.1`)
    truncateSync(path, 0)
  } catch (error) {
    if (!isCode(error, 'ENOENT')) throw error
  }
}

export async function tailLog(path: string, lines: number): Promise<string[]> {
  const current = await lastLines(path)
  const all = current.length >= lines ? current : [...(await lastLines(`${path}.1`)), ...current]
  return all.slice(-lines)
}

/** What the latest process wrote, without what its predecessors did. */
export async function tailOfLatest(path: string, lines: number): Promise<string[]> {
  const all = await tailLog(path, 5000)
  const start = all.findLastIndex((line) => line.startsWith(MARKER))
  return all.slice(start + 1).slice(-lines)
}

async function lastLines(path: string): Promise<string[]> {
  let file
  try {
    file = await open(path, 'r')
  } catch (error) {
    if (isCode(error, 'ENOENT')) return []
    throw error
  }
  try {
    const { size } = await file.stat()
    const length = Math.min(size, TAIL_BYTES)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length)
    const lines = buffer.subarray(0, bytesRead).toString('utf8').split('\n')
    if (length < size) lines.shift()
    if (lines.at(-1) === '') lines.pop()
    return lines
  } finally {
    await file.close()
  }
}
