import { join } from 'node:path'
import { PluginError } from '../sdk/errors.ts'
import type { OperationContext, OperationResult } from '../sdk/plugin.ts'
import { connectHost, type AppliedUnit, type HostClient } from './host-client.ts'
import { ensureKeys, type InstallKeys } from './keys.ts'
import type { SandboxConfig } from './plugin.ts'

const HEALTHY_WITHIN_SECONDS = 60

/** Makes the install or refreshes it; keys, ports and data of one that is there stay as they are. */
export async function createSandbox(
  context: OperationContext,
  config: SandboxConfig,
): Promise<OperationResult> {
  const host = await connectHost(config.host.dir, context.signal)
  const keys = await ensureKeys(config.host.dir, config.installId)
  const { joinToken } = await context.api.joinToken()
  const install =
    (await host.getInstall(config.installId)) ?? (await host.putInstall(config.installId, {}, 0)).install
  const port = await host.allocatePort(config.installId, 'registry')
  const units = systemUnits({
    node: process.execPath,
    programs: context.job.programs,
    serverUrl: context.job.serverUrl,
    hostSocket: install.socketPath,
    registryPort: port,
    joinToken,
    keys,
  })
  context.log(
    `install ${config.installName || config.installId}: applying ${Object.keys(units).join(' and ')}`,
  )
  const applied = await host.putInstall(config.installId, units, HEALTHY_WITHIN_SECONDS)
  checkHealthy(applied.units)
  return {
    ok: true,
    message: `install ${config.installName || config.installId} is ready on this machine`,
    data: { installId: config.installId, registryUrl: registryUrl(port), hostSocket: install.socketPath },
  }
}

/** Pure: what should run in an install. Secrets are files of mode 0600, never part of argv or env. */
export function systemUnits(facts: SandboxFacts): Parameters<HostClient['putInstall']>[1] {
  const { node, programs, keys, registryPort } = facts
  return {
    registry: {
      command: [node, join(programs, 'registry.mjs')],
      env: {
        TENON_REGISTRY_DIR: '{data}',
        TENON_REGISTRY_HOST: '127.0.0.1',
        TENON_REGISTRY_PORT: String(registryPort),
        TENON_REGISTRY_KEY_FILE: '{files}/registry.key',
      },
      files: { 'registry.key': keys.registry },
      health: { http: { port: registryPort, path: '/healthz' }, intervalSeconds: 2 },
    },
    agent: {
      command: [node, join(programs, 'agent.mjs')],
      env: {
        TENON_SERVER_URL: facts.serverUrl,
        TENON_AGENT_DIR: '{data}',
        TENON_JOIN_TOKEN_FILE: '{files}/join-token',
        TENON_REGISTRY_URL: registryUrl(registryPort),
        TENON_REGISTRY_KEY_FILE: '{files}/registry.key',
        TENON_STORE_KEY_FILE: '{files}/store.key',
        TENON_HOST_SOCKET: facts.hostSocket,
      },
      files: { 'join-token': facts.joinToken, 'registry.key': keys.registry, 'store.key': keys.store },
      health: 'none',
    },
  }
}

function registryUrl(port: number): string {
  return `http://127.0.0.1:${port}`
}

function checkHealthy(units: Record<string, AppliedUnit>): void {
  for (const [name, { outcome, reason, logTail }] of Object.entries(units)) {
    if (outcome === 'healthy') continue
    const tail = logTail.slice(-5).join(' | ')
    const message = `The ${name} of the install did not come up (${outcome}): ${reason ?? ''} ${tail}`
    throw new PluginError('host_refused', message.slice(0, 1500), "Read the unit's log on the local-host.")
  }
}

export interface SandboxFacts {
  node: string
  programs: string
  serverUrl: string
  hostSocket: string
  registryPort: number
  joinToken: string
  keys: InstallKeys
}
