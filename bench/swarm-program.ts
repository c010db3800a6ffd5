import { setTimeout as pause } from 'node:timers/promises'
import { pino } from 'pino'
import WebSocket from 'ws'
import { makeSigningKey, type Channel, type SigningKey } from '../packages/agent/src/index.ts'
import { monotonicMs, serveCommands } from './child.ts'
import { profileHandlers } from './profile.ts'
import { createLeanAgent, type Identity, type ServerFacts } from './lean-agent.ts'

/** Many agents in one process. Their keys are made and stay here. */
const keys: SigningKey[] = []
const channels: Channel[] = []
const bare: WebSocket[] = []
const assigned: { pool: string; at: number }[] = []
const settled: Record<string, number> = {}
let welcomes: number[] = []
let settledCount = 0
const log = pino({ level: 'silent' })

const ears = {
  welcomed: () => void welcomes.push(monotonicMs()),
  assigned: (pool: string) => void assigned.push({ pool, at: monotonicMs() }),
  settled: (kind: string) => {
    settledCount += 1
    settled[kind] = (settled[kind] ?? 0) + 1
  },
}

export type SwarmCommands = typeof handlers
const handlers = {
  ...profileHandlers,
  /** Public keys of `count` new agents. */
  makeKeys(count: number) {
    keys.push(...Array.from({ length: count }, () => makeSigningKey()))
    return keys.slice(-count).map((key) => key.publicKey)
  },
  /** Identities in the order of their keys, from `first` on. `perSecond` spreads the first dials. */
  async connect(options: { server: ServerFacts; first: number; identities: Identity[]; perSecond: number }) {
    const before = welcomes.length
    const began = monotonicMs()
    for (const [index, identity] of options.identities.entries()) {
      const channel = createLeanAgent(identity, keys[options.first + index]!, options.server, ears, log)
      channels.push(channel)
      channel.start()
      const ahead = (index / options.perSecond) * 1000 - (monotonicMs() - began)
      if (ahead > 0) await pause(ahead)
    }
    await until(
      () => welcomes.length - before >= options.identities.length,
      240_000,
      'all agents are welcomed',
    )
  },
  async disconnect() {
    await Promise.all(channels.splice(0).map((channel) => channel.stop()))
  },
  forgetWelcomes() {
    welcomes = []
  },
  /** When each of `count` agents was welcomed; fewer times when they were not all back in time. */
  async welcomed({ count, withinMs }: { count: number; withinMs: number }) {
    await until(() => welcomes.length >= count, withinMs, 'all are back').catch(() => undefined)
    return welcomes.slice(0, count)
  },
  async waitSettled(count: number) {
    await until(() => settledCount >= count, 30_000, `${count} jobs are settled`)
  },
  settled: () => ({ at: monotonicMs(), total: settledCount, kinds: { ...settled } }),
  assigned: () => assigned.splice(0),
  /** Plain WebSockets, all dialled at once; answers how long it took until the last was open. */
  async connectBare({ url, count }: { url: string; count: number }) {
    const began = monotonicMs()
    await Promise.all(
      Array.from({ length: count }, async () => {
        const ws = new WebSocket(url, { perMessageDeflate: false })
        bare.push(ws)
        await new Promise((resolve, reject) => ws.once('open', resolve).once('error', reject))
      }),
    )
    return monotonicMs() - began
  },
  async disconnectBare() {
    for (const ws of bare.splice(0)) ws.terminate()
  },
}

async function until(reached: () => boolean, withinMs: number, what: string): Promise<void> {
  const deadline = monotonicMs() + withinMs
  while (!reached()) {
    if (monotonicMs() > deadline)
      throw new Error(`not within ${withinMs / 1000} s: ${what} (${welcomes.length})`)
    await pause(2)
  }
}

serveCommands(handlers, async () => undefined)
