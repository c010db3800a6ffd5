import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sizeWords } from '@tenon/core'
import { downloadFile, proxyDispatcher } from '@tenon/oci'
import { canceled, PluginError } from '../sdk/errors.ts'
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
  const bytes = await download(context, url)
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  context.log(`${address} is ${digest}, ${sizeWords(bytes.length)}`)
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), digest }
  } catch (cause) {
    throw unreachable(address, 'it is not UTF-8 text', cause)
  }
}

async function download({ baseEnv, signal, workDir }: OperationContext, url: URL): Promise<Buffer> {
  const file = join(workDir, 'fetched')
  try {
    await downloadFile(url, file, {
      maxBytes: MOST_BYTES,
      dispatcher: proxyDispatcher(baseEnv),
      signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
    })
    return await readFile(file)
  } catch (error) {
    if (signal.aborted) throw canceled(error)
    throw unreachable(url.href, reasonOf(error), error)
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message
}

function unreachable(address: string, why: string, cause?: unknown): PluginError {
  const remedy = 'Correct the address, or let the build agent reach it.'
  return new PluginError('source_unreachable', `${address} cannot be fetched: ${why}.`, remedy, cause)
}
