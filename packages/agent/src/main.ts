import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { pino } from 'pino'
import { createAgent } from './agent.ts'
import { readConfig, type AgentConfig } from './config.ts'
import { AgentError } from './ground/errors.ts'
import { exitCodeOf } from './ground/exit-codes.ts'
import { isCommand, runCommand } from './owner/commands/run-command.ts'
import { chooseRuntime, createRuntime } from './runtime/create-runtime.ts'

const given = process.argv.slice(2)
const args = given[0] === 'start' ? given.slice(1) : given
if (isCommand(args)) {
  // Whoever reads a pipe may have seen enough, as `head` has.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
  const { stdin, stdout, stderr, env } = process
  process.exitCode = await runCommand(args, { stdin, stdout, stderr, env, clock: Date.now })
} else {
  preferMemoryToSpeed()
  await runAgent(configure())
}

/** It waits most of its life, on a machine that is there for jobs: with ten of them it takes 74 MB, and 92 without this. */
function preferMemoryToSpeed(): void {
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--interrupt-budget=2000000')
}

function configure(): AgentConfig {
  try {
    return readConfig(args, process.env, path.dirname(fileURLToPath(import.meta.url)))
  } catch (error) {
    const remedy = error instanceof AgentError ? ` ${error.remedy}` : ''
    process.stderr.write(`${(error as Error).message}${remedy}\n`)
    process.exit(exitCodeOf(error))
  }
}

async function runAgent(config: AgentConfig): Promise<never> {
  const log = pino({ name: 'agent', level: config.logLevel }, pino.destination({ fd: 2, sync: true }))
  const runtime = await createRuntime(chooseRuntime(config), config.dir, log)
  const agent = createAgent({ config, runtime, log })
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void agent.stop())
  await agent.start()
  process.exit(await agent.done)
}
