import type { Client } from '@tenon/protocol'
import { createLogFilter } from '../output/clean.ts'

const TAIL_BYTES = 8192
const TAIL_LINES = 12

/** The end of a job's log, for an explanation; no log is no reason to fail. */
export async function lastLogLines(client: Client, jobId: string, colour: boolean): Promise<string[]> {
  try {
    const job = await client.call('jobs.get', { params: { id: jobId } })
    const offset = Math.max(0, job.logBytes - TAIL_BYTES)
    const response = await client.call('jobs.logs', { params: { id: jobId }, query: { offset } })
    const filter = createLogFilter()
    const text = filter.push(new Uint8Array(await response.arrayBuffer())) + filter.end()
    const lines = text.split('\n').filter((line, i) => line.trim() !== '' && !(i === 0 && offset > 0))
    return lines.slice(-TAIL_LINES).map((line) => (colour ? line : line.replace(COLOURS, '')))
  } catch {
    return ['(its log cannot be read)']
  }
}

/* oxlint-disable-next-line no-control-regex -- colours are control sequences */
const COLOURS = /\u001B\[[0-9;:]*m/g
