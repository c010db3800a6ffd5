import { sizeWords } from '@tenon/core'
import { createHash } from 'node:crypto'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext } from '../sdk/plugin.ts'

const MOST_BYTES = 4 * 1024 * 1024
const PATIENCE_MS = 60_000

/** A text that the configuration has the address of, as it is now, with the digest of its bytes. */
export async function fetchText(
  context: OperationContext,
  address: string,
): Promise<{ text: string; digest: string }> {
  const url = new URL(address)
  if (url.username !== '' || url.password !== '')
    throw unreachable(url.host, 'an address may hold no password')
  context.log(`fetching ${address}`)
  const bytes = await read(url, AbortSignal.any([context.signal, AbortSignal.timeout(PATIENCE_MS)]))
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  context.log(`${address} is ${digest}, ${sizeWords(bytes.length)}`)
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), digest }
  } catch (cause) {
    throw unreachable(address, 'it is not UTF-8 text', cause)
  }
}

async function read(url: URL, signal: AbortSignal): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  try {
    const answer = await fetch(url, { signal })
    if (!answer.ok) throw unreachable(url.href, `the answer is ${answer.status}`)
    let size = 0
    for await (const chunk of answer.body ?? []) {
      size += (chunk as Uint8Array).byteLength
      if (size > MOST_BYTES) throw unreachable(url.href, 'it is larger than 4 MB')
      chunks.push(chunk as Uint8Array)
    }
  } catch (error) {
    if (error instanceof PluginError) throw error
    const { message, cause } = error as Error
    throw unreachable(url.href, cause instanceof Error ? cause.message : message, error)
  }
  return Buffer.concat(chunks)
}

function unreachable(address: string, why: string, cause?: unknown): PluginError {
  const remedy = 'Correct the address, or let the build agent reach it.'
  return new PluginError('source_unreachable', `${address} cannot be fetched: ${why}.`, remedy, cause)
}
