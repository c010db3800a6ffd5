import { parseArgs } from 'node:util'

export type HostCommand =
  | { kind: 'apply'; name: string; apply: ApplyOptions }
  | { kind: 'remove'; name: string }
  | { kind: 'status'; name: string }

export interface ApplyOptions {
  portName: string
  healthPath: string | undefined
  env: Record<string, string>
  /** Name in the unit's folder → path to read. The way for secrets, which `--env` is not. */
  files: Record<string, string>
  bundle: string
  waitSeconds: number
  command: string[]
}

export const USAGE = `Usage:
  tenon-host service apply NAME [options] -- COMMAND [ARG...]
      --port-name NAME     name of the service's port; its number is given as $PORT (default: http)
      --health PATH        HTTP path that answers 2xx when the service is healthy (default: none)
      --env NAME=VALUE     environment of the service, not for secrets; may be repeated
      --file NAME=PATH     file placed for the service at $TENON_FILES/NAME, mode 0600; may be repeated
      --bundle FOLDER      folder to copy, where the command starts (default: the current folder)
      --wait SECONDS       how long it may take to become healthy (default: 60)
  tenon-host service remove NAME
  tenon-host service status NAME

Example:
  tenon-host service apply web --port-name http --health /healthz --env GREETING=hi -- node server.mjs`

/** Wrong use of the command line; the message says which part. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export function parseHostCommand(argv: readonly string[]): HostCommand {
  const end = argv.indexOf('--')
  const command = end === -1 ? [] : argv.slice(end + 1)
  const { values, positionals } = parse(end === -1 ? argv : argv.slice(0, end))
  const [noun, verb, name, ...rest] = positionals
  if (noun !== 'service' || name === undefined || rest.length > 0) {
    throw new UsageError('Say what to do with which service.')
  }
  if (verb === 'remove' || verb === 'status') return { kind: verb, name }
  if (verb !== 'apply') throw new UsageError(`There is no "service ${verb}".`)
  if (command.length === 0) throw new UsageError('The command to run is missing after "--".')
  const waitSeconds = Number(values.wait ?? '60')
  if (!(waitSeconds > 0 && waitSeconds <= 600)) throw new UsageError('--wait must be from 1 to 600 seconds.')
  const apply = {
    portName: values['port-name'] ?? 'http',
    healthPath: values.health,
    env: pairs('--env', values.env),
    files: pairs('--file', values.file),
    bundle: values.bundle ?? '.',
    waitSeconds,
    command,
  }
  return { kind: 'apply', name, apply }
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        'port-name': { type: 'string' },
        health: { type: 'string' },
        env: { type: 'string', multiple: true },
        file: { type: 'string', multiple: true },
        bundle: { type: 'string' },
        wait: { type: 'string' },
      },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error })
  }
}

function pairs(option: string, given: readonly string[] = []): Record<string, string> {
  return Object.fromEntries(
    given.map((pair) => {
      const at = pair.indexOf('=')
      if (at < 1) throw new UsageError(`${option} wants NAME=VALUE.`)
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}
