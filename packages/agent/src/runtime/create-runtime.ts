import path from 'node:path'
import type { Logger } from 'pino'
import { createFakeRuntime } from './fake.ts'
import { createProcessRuntime } from './process/process-runtime.ts'
import type { Runtime } from './runtime.ts'

/** The runtime of an agent's folder, where its jobs live on when the agent does not. */
export function createRuntime(name: 'process' | 'fake', agentDir: string, log: Logger): Runtime {
  const dir = path.join(agentDir, 'jobs')
  return name === 'fake' ? createFakeRuntime({ dir }) : createProcessRuntime({ dir, log })
}
