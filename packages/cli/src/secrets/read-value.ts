import { sizeWords } from '@tenon/core'
import { CliError, usageError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'
import type { Input, Io } from '../io.ts'

/** All of stdin when it is a pipe or a file. */
export async function readPiped(stdin: Input, most: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stdin) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk))
    size += bytes.length
    if (size > most) throw usageError(`stdin holds more than ${sizeWords(most)}`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

const ENTER = new Set([10, 13])
const BACKSPACE = new Set([8, 127])
const INTERRUPT = 3
const END = 4

/** One line typed at the terminal, which shows none of it. */
export async function readHidden(io: Pick<Io, 'stdin' | 'stderr'>, prompt: string): Promise<Buffer> {
  const { stdin, stderr } = io
  stderr.write(prompt)
  stdin.setRawMode?.(true)
  try {
    return await readLine(stdin)
  } finally {
    stdin.setRawMode?.(false)
    stdin.pause()
    stderr.write('\n')
  }
}

function readLine(stdin: Input): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const typed: number[] = []
    const finish = (settle: () => void) => {
      stdin.off('data', onData)
      stdin.off('end', onEnd)
      settle()
    }
    const onEnd = () => finish(() => resolve(Buffer.from(typed)))
    const onData = (chunk: Buffer | string) => {
      for (const byte of Buffer.from(chunk as Buffer)) {
        if (ENTER.has(byte) || byte === END) return onEnd()
        if (byte === INTERRUPT) return finish(() => reject(new CliError(EXIT.interrupted, 'interrupted')))
        if (!BACKSPACE.has(byte)) typed.push(byte)
        else dropCharacter(typed)
      }
    }
    stdin.on('data', onData)
    stdin.on('end', onEnd)
    stdin.resume()
  })
}

/** A character of several bytes goes as one. */
function dropCharacter(typed: number[]): void {
  let byte = typed.pop()
  while (byte !== undefined && (byte & 0xc0) === 0x80) byte = typed.pop()
}

/** Asks before something that cannot be undone; without a terminal `--yes` must say so beforehand. */
export async function confirm(
  io: Pick<Io, 'stdin' | 'stderr'>,
  question: string,
  yes: boolean,
): Promise<void> {
  if (yes) return
  if (!io.stdin.isTTY) throw usageError(`${question} needs a yes`, 'add --yes')
  io.stderr.write(`${question}? type yes: `)
  const answer = await readLine(io.stdin)
  io.stdin.pause()
  if (answer.toString().trim() !== 'yes') throw new CliError(EXIT.usage, 'not done')
}
