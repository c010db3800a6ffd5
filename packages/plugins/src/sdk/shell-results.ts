import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { sizeWords } from '@tenon/core'
import { jobOutputs, jobResult } from '@tenon/protocol'
import type { z } from 'zod'
import { PluginError } from './errors.ts'
import type { JobOutputs } from './job-api.ts'

const MAX_FILE_BYTES = 1_048_576
const MAX_OUTPUTS = 500
const MAX_DEPTH = 64

const resultFile = jobResult.pick({ message: true, data: true }).partial()
export type ShellResultFile = z.infer<typeof resultFile>

/** What a script left in its `out` folder is a stranger's word: read with bounds and checked, or refused as a whole. */
export async function readShellOutputs(out: string): Promise<JobOutputs | undefined> {
  const value = await readUntrustedJson(join(out, 'outputs.json'))
  if (value === undefined) return undefined
  const outputs = check('outputs.json', jobOutputs, value)
  if (Object.keys(outputs).length > MAX_OUTPUTS)
    throw invalid('outputs.json', `has more than ${MAX_OUTPUTS} outputs`)
  return outputs
}

export async function readShellResult(out: string): Promise<ShellResultFile> {
  const value = await readUntrustedJson(join(out, 'result.json'))
  return value === undefined ? {} : check('result.json', resultFile, value)
}

/** Neither follows a link nor waits for a pipe, and never reads past its bound. Absent: undefined. */
export async function readUntrustedJson(path: string): Promise<unknown> {
  const file = path.slice(path.lastIndexOf('/') + 1)
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(path, flags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw invalid(file, `cannot be read (${error.code ?? error.message})`, error)
  })
  if (handle === undefined) return undefined
  try {
    if (!(await handle.stat()).isFile()) throw invalid(file, 'is not a plain file')
    const buffer = Buffer.alloc(MAX_FILE_BYTES + 1)
    let size = 0
    while (size < buffer.length) {
      const { bytesRead } = await handle.read(buffer, size, buffer.length - size, size)
      if (bytesRead === 0) break
      size += bytesRead
    }
    if (size > MAX_FILE_BYTES) throw invalid(file, `is larger than ${sizeWords(MAX_FILE_BYTES)}`)
    return parse(file, buffer.subarray(0, size))
  } finally {
    await handle.close()
  }
}

function parse(file: string, bytes: Uint8Array): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    if (depthOf(bytes) > MAX_DEPTH) throw new Error(`nested deeper than ${MAX_DEPTH}`)
    return JSON.parse(text) as unknown
  } catch (cause) {
    throw invalid(file, `is not JSON (${cause instanceof Error ? cause.message.slice(0, 100) : ''})`, cause)
  }
}

/** Counted on the bytes, before anything recursive walks the value. */
function depthOf(bytes: Uint8Array): number {
  let depth = 0
  let deepest = 0
  let inString = false
  for (let i = 0; i < bytes.length; i++) {
    const character = String.fromCharCode(bytes[i] ?? 0)
    if (inString) {
      if (character === '\\') i++
      else if (character === '"') inString = false
    } else if (character === '"') inString = true
    else if (character === '[' || character === '{') deepest = Math.max(deepest, ++depth)
    else if (character === ']' || character === '}') depth--
  }
  return deepest
}

function check<T>(file: string, schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const fields = parsed.error.issues.slice(0, 3).map((issue) => issue.path.join('.') || 'the whole')
  throw invalid(file, `does not have the form it must have (${fields.join(', ').slice(0, 200)})`)
}

function invalid(file: string, why: string, cause?: unknown): PluginError {
  const remedy =
    'Write {"name": {"value": ..., "sensitive": false}} as outputs, {"message", "data"} as result.'
  return new PluginError('outputs_invalid', `${file} of the script ${why}.`, remedy, cause)
}
