import { createLocalHostClient } from './client.ts'
import { parseHostCommand, USAGE, UsageError } from './tenon-host-args.ts'
import { runHostCommand } from './tenon-host-command.ts'

const err = (line: string) => void process.stderr.write(`${line}\n`)
const out = (line: string) => void process.stdout.write(`${line}\n`)
const argv = process.argv.slice(2)

try {
  if (argv.includes('--help') && !argv.includes('--')) {
    out(USAGE)
  } else {
    const command = parseHostCommand(argv)
    const socketPath = process.env['TENON_HOST_SOCKET']
    if (!socketPath) throw new UsageError('TENON_HOST_SOCKET is not set: this runs only inside a job.')
    const client = createLocalHostClient({ socketPath })
    process.exitCode = await runHostCommand(command, { client, cwd: process.cwd(), out, err })
  }
} catch (error) {
  err(error instanceof Error ? error.message : String(error))
  if (error instanceof UsageError) err(USAGE)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
