import { AgentError, messageOf } from '../../ground/errors.ts'
import { EXIT, exitCodeOf, type ExitCode } from '../../ground/exit-codes.ts'
import { misuse, parseInput, type Command, type CommandIo } from './command.ts'
import { exportCommand } from './export.ts'
import { keygen } from './keygen.ts'
import { restore } from './restore.ts'
import { secretList, secretSet } from './secret.ts'
import { status } from './status.ts'
import { jobsStop, pause, release, resume, rotateKey } from './switch.ts'

const COMMANDS: readonly Command[] = [
  status,
  pause,
  resume,
  release,
  rotateKey,
  jobsStop,
  secretSet,
  secretList,
  keygen,
  exportCommand,
  restore,
]

/** Whether these arguments are for a command; all others start the agent. */
export function isCommand([first]: readonly string[]): boolean {
  return first === 'help' || first === '--help' || COMMANDS.some(({ words }) => words.split(' ')[0] === first)
}

export async function runCommand(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  try {
    const command = COMMANDS.find(({ words }) => words === args.slice(0, words.split(' ').length).join(' '))
    if (!command) return unknown(args, io)
    const rest = args.slice(command.words.split(' ').length)
    if (rest.includes('--help')) io.stdout.write(helpOf(command))
    else await command.run(parseInput(command, rest, io))
    return EXIT.stopped
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : ''
    io.stderr.write(`error: ${messageOf(error)}${code}\n`)
    if (error instanceof AgentError) io.stderr.write(`next: ${error.remedy}\n`)
    return exitCodeOf(error)
  }
}

function unknown(args: readonly string[], io: CommandIo): ExitCode {
  const [first = 'help'] = args
  const group = COMMANDS.filter(({ words }) => words.startsWith(`${first} `))
  if (group.length > 0 && !args.includes('--help')) {
    throw misuse({ words: first }, `say which: ${group.map(({ words }) => words).join(' or ')}`)
  }
  io.stdout.write(group.length > 0 ? group.map(helpOf).join('\n') : OVERVIEW)
  return EXIT.stopped
}

function helpOf({ words, summary, argument, options, examples }: Command): string {
  const rows = Object.entries(options).map(([name, { value, help }]): [string, string] => [
    `--${name}${value ? ` ${value}` : ''}`,
    help,
  ])
  return [
    `Usage: tenon agent ${[words, argument, '[options]'].filter(Boolean).join(' ')}`,
    '',
    `${summary[0]?.toUpperCase()}${summary.slice(1)}.`,
    '',
    'Options:',
    ...table(rows),
    '',
    'Examples:',
    ...examples.map((example) => `  $ ${example}`),
    '',
  ].join('\n')
}

const OVERVIEW = [
  'Usage: tenon agent start --server URL --dir DIR [--join-token-file FILE] [--runtime process] [--slots N]',
  '       tenon agent COMMAND [options]',
  '',
  'Without a command the agent runs here until it is stopped. Its owner may also:',
  '',
  ...table(COMMANDS.map(({ words, argument, summary }) => [`${words} ${argument ?? ''}`, summary])),
  '',
  'Exit codes:',
  ...table([
    ['0', 'done, or stopped as asked'],
    ['1', 'it failed; trying again may help'],
    ['2', 'not usable as given: flags, token, folder or value; trying again changes nothing'],
    ['3', 'the agent ends: a newer process or another agent took over'],
    ['4', 'the agent ends: the server put its identity out of use'],
  ]),
  '',
  'Examples:',
  '  $ tenon agent start --server https://tenon.example.com --dir ./agent --join-token-file join.token',
  '  $ tenon agent status --dir ./agent',
  '  $ tenon agent COMMAND --help',
  '',
].join('\n')

function table(rows: (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length)) + 2
  return rows.map(([left, right]) => `  ${left.padEnd(width)}${right}`)
}
