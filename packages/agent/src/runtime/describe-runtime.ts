import type { RuntimeInfo } from '@tenon/protocol'
import type { Logger } from 'pino'
import { capacityOf, type AgentConfig } from '../config.ts'
import type { Runtime } from './runtime.ts'

/** What the server is told of the runtime; its warnings are in the agent's own log too. */
export async function describeRuntime(
  runtime: Runtime,
  config: AgentConfig,
  log: Logger,
): Promise<RuntimeInfo> {
  const described = await runtime.describe()
  const { confinement } = described
  const warnings = [...described.warnings, ...(config.outdated ?? [])]
  for (const warning of warnings) log.warn({ runtime: runtime.name }, warning)
  const clipped = warnings.slice(0, 20).map((warning) => warning.slice(0, 500))
  const { interactiveSlots, memoryBytes, cpus } = capacityOf(config)
  const known = (value: number) => (Number.isFinite(value) ? value : null)
  return {
    name: runtime.name,
    confinement: confinement.slice(0, 500),
    warnings: clipped,
    capacity: { interactiveSlots, memoryBytes: known(memoryBytes), cpus: known(cpus) },
  }
}
