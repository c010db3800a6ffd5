import { parseArgs } from 'node:util'
import { HostError, messageOf } from './errors.ts'
import { startLocalHost } from './host.ts'
import { ownersSettings } from './launch.ts'
import { jsonLogger } from './logger.ts'

const { values } = parseArgs({ options: { dir: { type: 'string' } } })
if (values.dir === undefined) {
  console.error('Usage: local-host --dir DIR')
  process.exit(2)
}

const log = jsonLogger((line) => process.stderr.write(line), Date.now)
// Heard from the first moment: a signal during the start must not leave what was started so far.
const asked = new Promise<string>((resolve) => {
  process.on('SIGTERM', resolve)
  process.on('SIGINT', resolve)
})
try {
  const host = await startLocalHost({ dir: values.dir, log, agentEnv: ownersSettings(process.env) })
  process.stdout.write(`${host.adminSocket}\n`)
  log.info({ signal: await asked }, 'stopping everything this local-host runs')
  await host.close({ stopServices: true })
  process.exit(0)
} catch (error) {
  console.error(messageOf(error), error instanceof HostError ? error.remedy : '')
  process.exit(1)
}
