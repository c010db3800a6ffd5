import path from 'node:path'
import type { AgentConfig } from '../config.ts'
import type { EgressSettings } from '../egress/job-egress.ts'
import type { ContractServer } from './contract-server.ts'

/** Of an agent with two slots and jobs that only pretend, everything of which is in `dir`. */
export function configOf(server: ContractServer, dir: string, changes: Partial<AgentConfig>): AgentConfig {
  return {
    serverUrl: server.url,
    dir: path.join(dir, 'agent'),
    joinToken: { value: server.joinToken },
    runtime: 'fake',
    slots: 2,
    registry: undefined,
    hostSocket: undefined,
    lentPaths: [],
    toolPaths: [],
    jobKubeconfig: undefined,
    storeKeyFile: path.join(dir, 'store.key'),
    programs: '/programs',
    proxy: { httpsProxy: undefined, httpProxy: undefined, noProxy: undefined },
    logLevel: 'silent',
    maxLogBytes: 1_000_000,
    clockSkewMs: 300_000,
    ...changes,
  }
}

/** Of an agent with a server and a registry on this machine, and without a proxy. */
export function egressOf(changes: Partial<EgressSettings>): EgressSettings {
  return {
    serverUrl: 'http://127.0.0.1:4000',
    registryUrl: 'http://127.0.0.1:5000',
    clusters: [],
    limits: undefined,
    proxy: { httpsProxy: undefined, httpProxy: undefined, noProxy: undefined },
    authorities: undefined,
    ...changes,
  }
}
