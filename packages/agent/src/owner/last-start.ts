import path from 'node:path'
import { z } from 'zod'
import { readIfThere, replaceFile } from '../durable-file.ts'

/** What the agent knew at its last start: where its owner reaches it, and what `status` tells when it is stopped. */
const lastStart = z.object({
  /** A copy of the folder must not reach the agent it was copied from. */
  dir: z.string(),
  socket: z.string(),
  serverUrl: z.string(),
  version: z.string(),
  startedAt: z.string(),
  runtime: z.object({ name: z.string(), confinement: z.string(), warnings: z.array(z.string()) }),
})
export type LastStart = z.infer<typeof lastStart>

export async function writeLastStart(dir: string, start: Omit<LastStart, 'dir'>): Promise<LastStart> {
  const complete = { dir: path.resolve(dir), ...start }
  await replaceFile(fileIn(dir), `${JSON.stringify(complete, null, 2)}\n`)
  return complete
}

/** Undefined also when it cannot be read: nothing depends on it but what is shown. */
export async function readLastStart(dir: string): Promise<LastStart | undefined> {
  try {
    const found = lastStart.parse(JSON.parse((await readIfThere(fileIn(dir))) ?? ''))
    return found.dir === path.resolve(dir) ? found : undefined
  } catch {
    return undefined
  }
}

function fileIn(dir: string): string {
  return path.join(dir, 'last-start.json')
}
