import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The end of every program's log, for a failure that has to be understood from its report alone. */
export function lastWordsIn(folder: string): string {
  const files = existsSync(folder) ? readdirSync(folder) : []
  return files
    .map((file) => {
      const lines = readFileSync(join(folder, file), 'utf8').trimEnd().split('\n')
      return [`--- ${file}`, ...lines.slice(-15).map((line) => line.slice(0, 500))].join('\n')
    })
    .join('\n')
}

/** What each server said when it was told to stop; one that was killed says nothing. */
export function statementsOf(log: string): number {
  const lines = existsSync(log) ? readFileSync(log, 'utf8').split('\n') : []
  const counts = lines
    .filter((line) => line.includes('the server has stopped'))
    .map((line) => Number(/"statements":(\d+)/.exec(line)?.[1]))
  // A bound on a count that nobody says any more would hold for ever.
  if (counts.some(Number.isNaN)) throw new Error(`${log} does not say how many statements the server named`)
  return Math.max(0, ...counts)
}
