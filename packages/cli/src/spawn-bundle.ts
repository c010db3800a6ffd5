import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CliError } from './errors.ts'
import { EXIT } from './exit-codes.ts'
import type { Io, SignalName } from './io.ts'

const SIGNAL_NUMBERS: Partial<Record<NodeJS.Signals, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGKILL: 9,
  SIGTERM: 15,
}

/** Runs `dist/NAME.mjs` as if it were this program: its terminal, its signals, its exit code. */
export async function spawnBundle(
  io: Io,
  name: 'server' | 'agent',
  args: readonly string[],
): Promise<number> {
  const bundle = join(io.host.dist, `${name}.mjs`)
  if (!existsSync(bundle)) {
    throw new CliError(EXIT.internal, `the ${name} has not been built: ${bundle} is absent`, {
      next: 'run `npm run build` in the clone',
    })
  }
  const child = spawn(io.host.node, ['--enable-source-maps', bundle, ...args], {
    cwd: io.cwd,
    env: io.env,
    stdio: 'inherit',
  })
  // Ctrl-C reaches the child from the terminal itself: a second SIGINT would read as "at once".
  const signals: SignalName[] = io.stdin.isTTY ? ['SIGTERM', 'SIGHUP'] : ['SIGINT', 'SIGTERM', 'SIGHUP']
  const offs = signals.map((signal) => io.onSignal(signal, () => void child.kill(signal)))
  if (io.stdin.isTTY) offs.push(io.onSignal('SIGINT', () => undefined))
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (cause) =>
        reject(new CliError(EXIT.internal, `cannot start the ${name}: ${cause.message}`, { cause })),
      )
      child.once('exit', (code, signal) => resolve(code ?? 128 + (SIGNAL_NUMBERS[signal ?? 'SIGKILL'] ?? 0)))
    })
  } finally {
    for (const off of offs) off()
  }
}
