import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { createAgent } from './agent.ts'
import { readConfig, type AgentConfig } from './config.ts'
import { AgentError } from './errors.ts'
import { exitCodeOf } from './exit-codes.ts'
import { createFakeRuntime } from './runtime/fake.ts'
import { createProcessRuntime } from './runtime/process/process-runtime.ts'

function configure(): AgentConfig {
  try {
    return readConfig(process.argv.slice(2), process.env, path.dirname(fileURLToPath(import.meta.url)))
  } catch (error) {
    const remedy = error instanceof AgentError ? ` ${error.remedy}` : ''
    process.stderr.write(`${(error as Error).message}${remedy}\n`)
    process.exit(exitCodeOf(error))
  }
}

const config = configure()
const log = pino({ name: 'agent', level: config.logLevel }, pino.destination({ fd: 2, sync: true }))
const dir = path.join(config.dir, 'jobs')
const runtime = config.runtime === 'fake' ? createFakeRuntime({ dir }) : createProcessRuntime({ dir, log })
const agent = createAgent({ config, runtime, log })
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void agent.stop())
await agent.start()
process.exit(await agent.done)
