import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { createAgent } from './agent.ts'
import { readConfig, type AgentConfig } from './config.ts'
import { sha256 } from './crypto.ts'
import { AgentError } from './errors.ts'
import { exitCodeOf } from './exit-codes.ts'
import { pullBearer } from './registry-access.ts'
import { createDockerRuntime } from './runtime/docker/docker-runtime.ts'
import { splitReference, type RegistryAuth } from './runtime/docker/pull-image.ts'
import { createFakeRuntime } from './runtime/fake.ts'
import { createProcessRuntime } from './runtime/process/process-runtime.ts'
import type { Runtime } from './runtime/runtime.ts'

function configure(): AgentConfig {
  try {
    return readConfig(process.argv.slice(2), process.env, path.dirname(fileURLToPath(import.meta.url)))
  } catch (error) {
    const remedy = error instanceof AgentError ? ` ${error.remedy}` : ''
    process.stderr.write(`${(error as Error).message}${remedy}\n`)
    process.exit(exitCodeOf(error))
  }
}

function chooseRuntime(): Runtime {
  if (config.runtime === 'fake') return createFakeRuntime({ dir })
  if (config.docker === undefined) return createProcessRuntime({ dir, log })
  const agentKey = sha256(Buffer.from(config.dir)).slice(0, 16)
  return createDockerRuntime({ ...config.docker, dir, log, agentKey, registryAuth })
}

/** Images of the install's own registry are pulled with a login of the agent's making, others with none. */
async function registryAuth(image: string): Promise<RegistryAuth | undefined> {
  const { registry, proxy } = config
  const { host, repository } = splitReference(image)
  if (registry === undefined || new URL(registry.url).host !== host) return undefined
  return { username: 'tenon', password: await pullBearer(registry, repository, proxy) }
}

const config = configure()
const log = pino({ name: 'agent', level: config.logLevel }, pino.destination({ fd: 2, sync: true }))
const dir = path.join(config.dir, 'jobs')
const runtime = chooseRuntime()
const agent = createAgent({ config, runtime, log })
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void agent.stop())
await agent.start()
process.exit(await agent.done)
