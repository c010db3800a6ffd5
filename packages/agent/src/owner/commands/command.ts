import path from 'node:path'
import { parseArgs } from 'node:util'
import { pino } from 'pino'
import { dockerSockets } from '../../config.ts'
import { AgentError } from '../../ground/errors.ts'
import { createRuntime, type EngineChoice } from '../../runtime/create-runtime.ts'
import { storeKeyOfLastStart } from '../last-start.ts'
import type { AgentFolder } from '../stopped-access.ts'

/** What a command may touch of the process it runs in. */
export interface CommandIo {
  stdin: AsyncIterable<Buffer | string> & { isTTY?: boolean }
  stdout: NodeJS.WritableStream & { isTTY?: boolean }
  stderr: NodeJS.WritableStream
  env: Record<string, string | undefined>
  clock: () => number
}

export interface CommandInput {
  io: CommandIo
  argument: string
  text(option: string): string | undefined
  texts(option: string): string[]
  flag(option: string): boolean
}

interface CommandOption {
  type: 'string' | 'boolean'
  multiple?: boolean
  /** Stands for the value in the help. */
  value?: string
  help: string
}

export interface Command {
  /** How it is called, such as `secret set`. */
  words: string
  summary: string
  /** The one argument it takes, if any. */
  argument?: string
  options: Record<string, CommandOption>
  examples: string[]
  run(input: CommandInput): Promise<void>
}

export const DIR: Record<string, CommandOption> = {
  dir: { type: 'string', value: 'DIR', help: "the agent's folder (TENON_AGENT_DIR)" },
}
export const STORE_KEY: Record<string, CommandOption> = {
  'store-key-file': {
    type: 'string',
    value: 'FILE',
    help: 'the key of the install store; the one of its last start unless told (TENON_STORE_KEY_FILE)',
  },
}
export const JSON_FLAG: Record<string, CommandOption> = { json: { type: 'boolean', help: 'print JSON' } }

export function parseInput(command: Command, args: string[], io: CommandIo): CommandInput {
  const options = Object.fromEntries(
    Object.entries(command.options).map(([name, { type, multiple }]) => [
      name,
      { type, multiple: multiple === true },
    ]),
  )
  try {
    const { values, positionals } = parseArgs({ args, options, strict: true, allowPositionals: true })
    const wanted = command.argument === undefined ? 0 : 1
    if (positionals.length < wanted) throw new Error(`${command.argument} is needed`)
    if (positionals.length > wanted) throw new Error(`it takes no argument ${positionals[wanted]}`)
    const found = values as Record<string, string | boolean | string[] | undefined>
    return {
      io,
      argument: positionals[0] ?? '',
      text: (name) => (typeof found[name] === 'string' ? found[name] : undefined),
      texts: (name) => (Array.isArray(found[name]) ? found[name] : []),
      flag: (name) => found[name] === true,
    }
  } catch (cause) {
    throw misuse(command, (cause as Error).message, cause)
  }
}

export function misuse(command: Pick<Command, 'words'>, message: string, cause?: unknown): AgentError {
  const remedy = `See how it is used: tenon agent ${command.words} --help`
  return new AgentError('bad_config', `${command.words}: ${message}.`, remedy, { cause })
}

/** The folder that a command is about; flags come before variables. */
export function folderOf(command: Pick<Command, 'words'>, input: CommandInput): AgentFolder {
  const { io } = input
  const given = input.text('dir') || io.env['TENON_AGENT_DIR']
  if (!given) throw misuse(command, "--dir is needed: the agent's folder")
  const dir = path.resolve(given)
  const key = input.text('store-key-file') || io.env['TENON_STORE_KEY_FILE'] || storeKeyOfLastStart(dir)
  return {
    dir,
    storeKeyFile: key ? path.resolve(key) : path.join(dir, 'store.key'),
    clock: io.clock,
    runtime: async (name) => {
      const choice = runtimeChoice(name, io.env)
      return choice && createRuntime(choice, dir, pino({ level: 'silent' }))
    },
  }
}

/** A job is only stopped here, so that no image is needed. */
function runtimeChoice(name: string, env: CommandIo['env']): 'process' | 'fake' | EngineChoice | undefined {
  if (name === 'process' || name === 'fake') return name
  return name === 'docker' ? { socketPaths: dockerSockets(env), image: '' } : undefined
}

export function print(io: CommandIo, ...lines: string[]): void {
  io.stdout.write(lines.map((line) => `${line}\n`).join(''))
}
