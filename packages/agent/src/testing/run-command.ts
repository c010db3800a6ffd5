import { PassThrough, Readable } from 'node:stream'
import { runCommand } from '../owner/commands/run-command.ts'

export interface Ran {
  code: number
  stdout: string
  stderr: string
  bytes: Buffer
}

/** A command in this process, with streams of its own. */
export async function runAgentCommand(
  args: string[],
  input: { stdin?: string; isTTY?: boolean; env?: Record<string, string> } = {},
): Promise<Ran> {
  const { isTTY = false } = input
  const stdout = Object.assign(new PassThrough(), { isTTY })
  const stderr = new PassThrough()
  const out: Buffer[] = []
  let said = ''
  stdout.on('data', (part: Buffer) => out.push(part))
  stderr.on('data', (part: Buffer) => (said += part.toString()))
  const stdin = Object.assign(Readable.from([Buffer.from(input.stdin ?? '')]), { isTTY })
  const io = { stdin, stdout, stderr, env: input.env ?? {}, clock: Date.now }
  const code = await runCommand(args, io)
  const bytes = Buffer.concat(out)
  return { code, stdout: bytes.toString(), stderr: said, bytes }
}
