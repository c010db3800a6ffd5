import { readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { readIfThere, replaceFile } from '../ground/durable-file.ts'

/** What the agent knew at its last start: where its owner reaches it, and what `status` tells when it is stopped. */
const lastStart = z.object({
  /** A copy of the folder must not reach the agent it was copied from. */
  dir: z.string(),
  socket: z.string(),
  serverUrl: z.string(),
  /** Where the key of its store is, when that is not in the folder. */
  storeKeyFile: z.string().optional(),
  version: z.string(),
  startedAt: z.string(),
  runtime: z.object({ name: z.string(), confinement: z.string(), warnings: z.array(z.string()) }),
})
export type LastStart = z.infer<typeof lastStart>

export async function writeLastStart(
  { dir, serverUrl, storeKeyFile }: { dir: string; serverUrl: string; storeKeyFile: string },
  start: Omit<LastStart, 'dir' | 'serverUrl' | 'storeKeyFile'>,
): Promise<LastStart> {
  const files = { dir: path.resolve(dir), storeKeyFile: path.resolve(storeKeyFile) }
  const complete = { ...files, serverUrl, ...start }
  await replaceFile(fileIn(dir), `${JSON.stringify(complete, null, 2)}\n`)
  return complete
}

/** Undefined also when it cannot be read: nothing depends on it but what is shown. */
export async function readLastStart(dir: string): Promise<LastStart | undefined> {
  try {
    return parseIn(dir, (await readIfThere(fileIn(dir))) ?? '')
  } catch {
    return undefined
  }
}

/** So that a command on the folder finds the store of an agent that was told of its key by a variable. */
export function storeKeyOfLastStart(dir: string): string | undefined {
  try {
    return parseIn(dir, readFileSync(fileIn(dir), 'utf8'))?.storeKeyFile
  } catch {
    return undefined
  }
}

function parseIn(dir: string, text: string): LastStart | undefined {
  const found = lastStart.parse(JSON.parse(text))
  return found.dir === path.resolve(dir) ? found : undefined
}

function fileIn(dir: string): string {
  return path.join(dir, 'last-start.json')
}
