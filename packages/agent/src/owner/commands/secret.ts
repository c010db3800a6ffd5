import { sizeWords } from '@tenon/core'
import { readFile } from 'node:fs/promises'
import { AgentError } from '../../ground/errors.ts'
import { withAgent } from '../with-agent.ts'
import { DIR, folderOf, JSON_FLAG, print, STORE_KEY, type Command, type CommandInput } from './command.ts'

/** As much as the server takes too. */
const MAX_VALUE_BYTES = 70_000

export const secretSet: Command = {
  words: 'secret set',
  summary: 'set a secret of the install here, past the server; the value comes from stdin or a file',
  argument: 'NAME',
  options: {
    ...DIR,
    file: { type: 'string', value: 'FILE', help: 'take the exact bytes of this file' },
    ...STORE_KEY,
    ...JSON_FLAG,
  },
  examples: [
    'pass show acme/api-key | tenon agent secret set api-key --dir ./agent',
    'tenon agent secret set tls-key --file ./tls.key --dir ./agent',
  ],
  async run(input) {
    const folder = folderOf(secretSet, input)
    const name = input.argument
    const value = await readValue(input)
    const { version } = await withAgent(folder, (agent) => agent.setSecret(name, value))
    if (input.flag('json')) return print(input.io, JSON.stringify({ name, version }))
    print(input.io, `secret ${name} version ${version} is set; the next job that asks gets it`)
  },
}

export const secretList: Command = {
  words: 'secret list',
  summary: 'names of the secrets that are in the install; never their values',
  options: { ...DIR, ...STORE_KEY, ...JSON_FLAG },
  examples: ['tenon agent secret list --dir ./agent'],
  async run(input) {
    const secrets = await withAgent(folderOf(secretList, input), (agent) => agent.secrets())
    if (input.flag('json')) return print(input.io, JSON.stringify({ items: secrets }))
    if (secrets.length === 0) input.io.stderr.write('no secrets are set\n')
    const width = Math.max(...secrets.map(({ name }) => name.length), 0)
    for (const { name, version, setAt } of secrets) {
      print(input.io, `${name.padEnd(width)}  version ${version}  set ${setAt}`)
    }
  },
}

async function readValue({ io, text }: CommandInput): Promise<string> {
  const file = text('file')
  if (file === undefined && io.stdin.isTTY) {
    throw bad(
      'No value was given',
      'Pipe it in, or name a file with --file; arguments are seen by everybody.',
    )
  }
  const bytes = file === undefined ? await readPiped(io.stdin) : await readValueFile(file)
  if (bytes.byteLength === 0) throw bad('The value is empty', 'Give it on stdin or with --file.')
  if (bytes.byteLength > MAX_VALUE_BYTES) {
    throw bad(
      `The value has more than ${sizeWords(MAX_VALUE_BYTES)}`,
      'Keep large things elsewhere and set what opens them.',
    )
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw bad('The value is no text (UTF-8)', 'Encode it, for example in base64.', cause)
  }
}

async function readPiped(stdin: AsyncIterable<Buffer | string>): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of stdin) {
    parts.push(Buffer.from(part))
    size += part.length
    if (size > MAX_VALUE_BYTES + 2) break
  }
  const all = Buffer.concat(parts)
  // The line end that `echo` and most password managers add is no part of the value.
  return all.at(-1) === 10 ? all.subarray(0, all.at(-2) === 13 ? -2 : -1) : all
}

async function readValueFile(file: string): Promise<Buffer> {
  return readFile(file).catch((cause: Error) => {
    throw bad(
      `The file ${file} cannot be read: ${cause.message}`,
      'Check the path and who may read it.',
      cause,
    )
  })
}

function bad(message: string, remedy: string, cause?: unknown): AgentError {
  return new AgentError('bad_value', `${message}.`, remedy, { cause })
}
