import { documentDigest, FEATURE_NAMES, keptManifest, type JobManifest } from '@tenon/core'
import { PRODUCT_VERSION, type JobReport, type ServerFrame } from '@tenon/protocol'
import type { Logger } from 'pino'
import { createChannel, type Channel, type SigningKey } from '../packages/agent/src/index.ts'
import { sha256, signerOf } from '../packages/agent/src/ground/crypto.ts'

/** What the server must know of an agent beforehand, and what the agent must know of the server. */
export interface Identity {
  agentId: string
  /** `install:ID`, or `build`. */
  pool: string
  slots: number
}
export interface ServerFacts {
  url: string
  serverId: string
  keys: Map<string, string>
}

export interface Ears {
  welcomed(): void
  assigned(pool: string): void
  settled(kind: string): void
}

/**
 * An agent with the real channel and real signatures whose jobs end at once. It does not verify manifests and keeps no
 * journal: in production that work is on other machines, and here it would be on the server's two cores.
 */
export function createLeanAgent(
  identity: Identity,
  key: SigningKey,
  server: ServerFacts,
  ears: Ears,
  log: Logger,
): Channel {
  const running = new Map<string, string>()
  const sign = signerOf(key)
  const channel: Channel = createChannel({
    serverUrl: server.url,
    agentId: identity.agentId,
    serverId: server.serverId,
    bootCounter: 1,
    bootId: identity.agentId,
    sign,
    keys: () => ({ pinned: server.keys, ended: new Map() }),
    onKeys: async () => undefined,
    hello: () => ({
      version: PRODUCT_VERSION,
      features: FEATURE_NAMES,
      runtime: { name: 'fake', confinement: 'none', warnings: [] },
      slots: identity.slots,
      inventory: [],
      auditHead: null,
      recipient: null,
    }),
    heartbeat: () => ({ running: running.size, outboxBytes: 0, dropped: 0 }),
    onWelcome: () => ears.welcomed(),
    onFrame: (frame) => receive(frame),
    onDisconnect: () => running.clear(),
    proxy: { httpProxy: undefined, httpsProxy: undefined, noProxy: undefined },
    log,
    clock: Date.now,
    random: Math.random,
  })

  function receive(frame: ServerFrame): void {
    if (frame.type === 'job.settled') {
      ears.settled(running.get(frame.jobId) ?? 'unknown')
      running.delete(frame.jobId)
    }
    if (frame.type !== 'job.assign') return
    ears.assigned(identity.pool)
    const manifest = keptManifest(frame.manifest.text)
    const { jobId, fence } = manifest
    running.set(jobId, manifest.kind)
    channel.send({ type: 'job.accepted', jobId, fence })
    channel.send({ type: 'job.started', jobId, fence, at: new Date().toISOString(), confinement: 'none' })
    const report = reportOf(identity.agentId, manifest, frame.manifest.text)
    channel.send({ type: 'job.finished', jobId, fence, report: sign('job-report/1', report) })
  }
  return channel
}

function reportOf(agentId: string, manifest: JobManifest, text: string): JobReport {
  const at = new Date().toISOString()
  const made = { digest: `sha256:${'a'.repeat(64)}`, repository: 'apps/bench/web' }
  return {
    jobId: manifest.jobId,
    fence: manifest.fence,
    agentId,
    manifestDigest: documentDigest(text, sha256),
    outcome: 'succeeded',
    reason: 'completed',
    exitCode: 0,
    message: 'done',
    result: manifest.kind === 'build' ? made : {},
    outputs: {},
    logBytes: 0,
    startedAt: at,
    finishedAt: at,
  }
}
