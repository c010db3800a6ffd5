import { CommanderError } from '@commander-js/extra-typings'
import { createCli, type Cli } from './cli.ts'
import { describeFailure, errorCode } from './errors.ts'
import { EXIT } from './exit-codes.ts'
import type { Io } from './io.ts'
import { plain } from './output/clean.ts'
import { createProgram } from './program.ts'

/** The whole program: arguments in, exit code out. It touches nothing but what `io` holds. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const closed = new AbortController()
  const onError = (error: Error) => {
    if (errorCode(error) !== 'EPIPE') throw error
    closed.abort()
  }
  // They stay: what was written last may fail only after this function has returned.
  io.stdout.on('error', onError)
  io.stderr.on('error', onError)
  const cli = createCli(io, closed.signal)
  try {
    await createProgram(cli).parseAsync([...argv], { from: 'user' })
    return cli.exitCode
  } catch (error) {
    if (closed.signal.aborted) return EXIT.ok
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    return report(cli, error)
  }
}

function report(cli: Cli, error: unknown): number {
  const { out } = cli
  const failure = describeFailure(error)
  out.note(`${out.notePaint.red('error:')} ${plain(failure.message)}`)
  for (const line of failure.lines) out.note(`  ${plain(line)}`)
  if (failure.next !== undefined) out.note(`${out.notePaint.bold('next:')} ${plain(failure.next)}`)
  if (failure.requestId !== undefined) out.note(`request: ${plain(failure.requestId)}`)
  if (cli.io.env['TENON_DEBUG'] && error instanceof Error) out.note(error.stack ?? '')
  return failure.exitCode
}
