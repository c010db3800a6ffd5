import type { Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { machineChecks } from '../doctor/machine.ts'
import { serverChecks } from '../doctor/server.ts'
import { EXIT } from '../exit-codes.ts'
import { examples } from '../help-text.ts'
import { plain } from '../output/clean.ts'
import { paintStatus } from '../output/paint.ts'

export function addDoctor(program: Command, cli: Cli): void {
  program
    .command('doctor')
    .description(
      'check this machine, the sign-in, the server and its agents; says what to do about what is wrong',
    )
    .addHelpText(
      'after',
      examples('tenon doctor', 'tenon doctor --json', 'tenon doctor --context production'),
    )
    .action(() => doctor(cli))
}

async function doctor(cli: Cli): Promise<void> {
  const { out } = cli
  const checks = [...(await machineChecks(cli.io)), ...(await serverChecks(cli))]
  if (checks.some((check) => check.status === 'fail')) cli.exitCode = EXIT.failed
  if (cli.globals.json) return out.json({ checks })
  const width = Math.max(...checks.map((check) => check.name.length))
  for (const { name, status, message, remedy } of checks) {
    out.line(`${paintStatus(out.paint, status, status.padEnd(4))}  ${name.padEnd(width)}  ${plain(message)}`)
    if (remedy !== null) out.line(`${' '.repeat(width + 8)}${out.paint.dim('next:')} ${plain(remedy)}`)
  }
}
