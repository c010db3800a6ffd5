import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { AgentConfig } from '../config.ts'
import { messageOf } from '../ground/errors.ts'
import { parseYaml } from '../runtime/kubernetes/simple-yaml.ts'
import type { EgressSettings } from './job-egress.ts'
import { createRelay, type Relay } from './relay.ts'
import { targetOf, type Target } from './target.ts'

export interface Egress {
  settings: EgressSettings
  relay: Relay
}

/** What the jobs' way out needs of the agent's machine, read once as the agent starts. */
export async function openEgress(config: AgentConfig, log: Logger): Promise<Egress> {
  const { serverUrl, registry, networks, proxy, authorityFiles = [], jobKubeconfig } = config
  const read = async (file: string) => {
    try {
      return await readFile(file, 'utf8')
    } catch (error) {
      log.warn({ file, reason: messageOf(error) }, 'a file that jobs shall trust or use cannot be read')
      return ''
    }
  }
  const pem = (await Promise.all([...new Set(authorityFiles)].map(read))).join('\n').trim()
  const settings = {
    serverUrl,
    registryUrl: registry?.url,
    clusters: jobKubeconfig === undefined ? [] : clustersOf(await read(jobKubeconfig)),
    limits: networks,
    proxy,
    authorities: pem === '' ? undefined : `${pem}\n`,
  }
  log.info(
    { limits: networks ?? {}, authorities: pem !== '' },
    'jobs with egress and no declared names (Terraform, scripts, actions) have the network of the machine; TENON_JOB_NETWORKS narrows it',
  )
  return { settings, relay: createRelay({ proxy, log }) }
}

const kubeconfig = z.object({ clusters: z.array(z.object({ cluster: z.object({ server: z.url() }) })) })

/** Pure: the API servers that a kubeconfig names; none when it is not to be read. */
export function clustersOf(text: string): Target[] {
  try {
    const value: unknown = text.trimStart().startsWith('{') ? JSON.parse(text) : parseYaml(text)
    return kubeconfig.parse(value).clusters.map(({ cluster }) => targetOf(new URL(cluster.server)))
  } catch {
    return []
  }
}
