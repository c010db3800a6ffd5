import path from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../config.ts'
import { sha256 } from '../ground/crypto.ts'
import { pullBearer } from '../ground/registry-access.ts'
import { createDockerRuntime } from './docker/docker-runtime.ts'
import type { DockerRuntimeOptions } from './docker/docker-runtime.ts'
import { splitReference } from './docker/pull-image.ts'
import { createFakeRuntime } from './fake.ts'
import type { KubernetesRuntimeOptions } from './kubernetes/kubernetes-runtime.ts'
import { createProcessRuntime } from './process/process-runtime.ts'
import type { Runtime } from './runtime.ts'

export type EngineChoice = Omit<DockerRuntimeOptions, 'dir' | 'log' | 'agentKey'>
export type ClusterChoice = Omit<KubernetesRuntimeOptions, 'dir' | 'log' | 'agentKey'> & {
  agentKey?: string | undefined
}
type Choice = 'process' | 'fake' | EngineChoice | ClusterChoice

/** The runtime of an agent's folder, where its jobs live on when the agent does not. */
export async function createRuntime(choice: Choice, agentDir: string, log: Logger): Promise<Runtime> {
  const dir = path.join(agentDir, 'jobs')
  if (choice === 'fake') return createFakeRuntime({ dir })
  if (choice === 'process') return createProcessRuntime({ dir, log })
  const agentKey = sha256(Buffer.from(path.resolve(agentDir))).slice(0, 16)
  if ('namespace' in choice) {
    // Its HTTP client alone takes megabytes that no other agent needs.
    const { createKubernetesRuntime } = await import('./kubernetes/kubernetes-runtime.ts')
    return createKubernetesRuntime({ ...choice, dir, log, agentKey: choice.agentKey ?? agentKey })
  }
  return createDockerRuntime({ ...choice, dir, log, agentKey })
}

export function chooseRuntime(config: AgentConfig): Choice {
  const { docker, kubernetes, runtime } = config
  if (docker !== undefined) return { ...docker, registryAuth: (image) => registryLogin(config, image) }
  if (kubernetes !== undefined)
    return { ...kubernetes, registryAuth: (image) => registryLogin(config, image) }
  return runtime === 'fake' ? 'fake' : 'process'
}

/** Images of the install's own registry are pulled with a login of the agent's making, others with none. */
async function registryLogin(
  { registry, proxy }: AgentConfig,
  image: string,
): Promise<{ username: string; password: string } | undefined> {
  const { host, repository } = splitReference(image)
  if (registry === undefined) return undefined
  const { url, nodeAddress } = registry
  if (host !== new URL(url).host && host !== nodeAddress) return undefined
  return { username: 'tenon', password: await pullBearer(registry, repository, proxy) }
}
