import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readConfig } from './config.ts'
import { createLog } from './log.ts'
import { startServer } from './start.ts'

const config = (() => {
  try {
    return readConfig(process.env, fileURLToPath(new URL('.', import.meta.url)))
  } catch (error) {
    return fail(error)
  }
})()
const log = createLog(config.logLevel)

try {
  const server = await startServer(config, log)
  if (server.ownerToken)
    writeFileSync(join(config.dataDir, 'owner.token'), `${server.ownerToken}\n`, { mode: 0o600 })
  process.stdout.write(`${JSON.stringify({ url: server.url, serverId: server.context.serverId })}\n`)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => void server.stop().then(() => process.exit(0)))
  }
} catch (error) {
  fail(error)
}

function fail(error: unknown): never {
  const { message, remedy, code } = error as { message?: string; remedy?: string; code?: string }
  process.stderr.write(
    `error: ${message ?? String(error)}${code ? ` (${code})` : ''}\n${remedy ? `next: ${remedy}\n` : ''}`,
  )
  process.exit(1)
}
