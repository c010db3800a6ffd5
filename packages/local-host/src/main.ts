import { parseArgs } from 'node:util'
import { HostError, messageOf } from './errors.ts'
import { startLocalHost } from './host.ts'
import { jsonLogger } from './logger.ts'

const { values } = parseArgs({ options: { dir: { type: 'string' } } })
if (values.dir === undefined) {
  console.error('Usage: local-host --dir DIR')
  process.exit(2)
}

const log = jsonLogger((line) => process.stderr.write(line), Date.now)
try {
  const host = await startLocalHost({ dir: values.dir, log })
  process.stdout.write(`${host.adminSocket}\n`)
  const signal = await new Promise<string>((resolve) => {
    process.on('SIGTERM', resolve)
    process.on('SIGINT', resolve)
  })
  log.info({ signal }, 'stopping everything this local-host runs')
  await host.close({ stopServices: true })
} catch (error) {
  console.error(messageOf(error), error instanceof HostError ? error.remedy : '')
  process.exitCode = 1
}
