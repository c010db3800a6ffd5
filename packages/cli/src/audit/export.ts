import type { SealedEntry, SignedHead } from '@tenon/core'
import { keyLink, sealedEntry, signedHead, signedText } from '@tenon/protocol'
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { CliError, errorCode } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

/** An export is JSON lines: this header, then for each chain its signed head and its entries in order. */
const exportHeader = z.object({
  format: z.literal('tenon-audit-export/1'),
  serverId: z.string(),
  keys: z.array(keyLink),
  agents: z.array(
    z.object({ agentId: z.string(), publicKey: z.string(), keyChanges: z.array(signedText).default([]) }),
  ),
})
export type ExportHeader = z.infer<typeof exportHeader>

const headLine = z.object({ head: signedHead })
const entryLine = z.object({ chain: z.string(), entry: sealedEntry })
const bodyLine = z.union([headLine, entryLine])

export type ExportLine = { head: SignedHead } | { chain: string; entry: SealedEntry }

/** Reads an export line by line, however long it is. */
export async function readExport(
  path: string,
): Promise<{ header: ExportHeader; lines: AsyncGenerator<ExportLine> }> {
  const lines = readLines(path)
  const first = await lines.next()
  const header = exportHeader.safeParse(first.done ? undefined : first.value.value)
  if (!header.success) {
    throw new CliError(EXIT.usage, `${path} is no export of an audit`, {
      next: 'make one: tenon audit export > FILE',
    })
  }
  return { header: header.data, lines: parseLines(path, lines) }
}

async function* parseLines(path: string, lines: AsyncGenerator<Line>): AsyncGenerator<ExportLine> {
  for await (const { number, value } of lines) {
    const parsed = bodyLine.safeParse(value)
    if (!parsed.success) throw new CliError(EXIT.failed, `line ${number} of ${path} is no line of an export`)
    yield parsed.data
  }
}

interface Line {
  number: number
  value: unknown
}

async function* readLines(path: string): AsyncGenerator<Line> {
  let number = 0
  try {
    for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
      number++
      if (text !== '') yield { number, value: JSON.parse(text) as unknown }
    }
  } catch (cause) {
    if (cause instanceof SyntaxError)
      throw new CliError(EXIT.failed, `line ${number} of ${path} is not JSON`, {
        next: 'take another copy of it, or make it again: tenon audit export > FILE',
        cause,
      })
    if (errorCode(cause) === undefined) throw cause
    throw new CliError(EXIT.usage, `cannot read ${path}: ${errorCode(cause)}`, { cause })
  }
}
