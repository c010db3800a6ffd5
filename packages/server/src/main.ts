import { fileURLToPath } from 'node:url'
import { readConfig } from './config.ts'
import { StartError } from './errors.ts'
import { createLog } from './log.ts'
import { recoverOwner } from './recover-owner.ts'
import { startServer } from './start.ts'

const [command = 'start'] = process.argv.slice(2)

try {
  if (command === 'start') await start()
  else if (command === 'recover-owner') await recover()
  else
    throw new StartError(
      'bad_command',
      `the server knows no command ${command}`,
      'Use `start` or `recover-owner`.',
    )
} catch (error) {
  fail(error)
}

async function start(): Promise<void> {
  const config = readConfig(process.env, programDir())
  const server = await startServer(config, createLog(config.logLevel))
  process.stdout.write(`${JSON.stringify({ url: server.url, serverId: server.context.serverId })}\n`)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => void server.stop().then(() => process.exit(0)))
  }
}

async function recover(): Promise<void> {
  const config = readConfig(process.env, programDir(), false)
  const { tokenId, file } = await recoverOwner(config, createLog(config.logLevel))
  process.stdout.write(`${file}\n`)
  process.stderr.write(
    `a new owner's token, ${tokenId}, is in that file; the others are as they were\n` +
      'next: `tenon login --token-file` with it, then `tenon tokens list`, and revoke what should not be there\n',
  )
}

function programDir(): string {
  return fileURLToPath(new URL('.', import.meta.url))
}

function fail(error: unknown): never {
  const { message, remedy, code } = error as { message?: string; remedy?: string; code?: string }
  process.stderr.write(
    `error: ${message ?? String(error)}${code ? ` (${code})` : ''}\n${remedy ? `next: ${remedy}\n` : ''}`,
  )
  process.exit(1)
}
