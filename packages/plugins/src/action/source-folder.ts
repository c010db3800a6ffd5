import { createHash } from 'node:crypto'
import type { GitSource } from '../build/config.ts'

/** Pure: where an action's artifact has what a step names. A step that names something else finds nothing there. */
export function sourceFolder({ repo, ref, directory }: Omit<GitSource, 'kind'>): string {
  const named = createHash('sha256').update(JSON.stringify([repo, ref, directory]))
  return `sources/${named.digest('hex').slice(0, 32)}`
}
