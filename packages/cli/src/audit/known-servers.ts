import { extendPinnedKeys, learnKeys, type AuditHead, type KeyLink, type KnownKeys } from '@tenon/core'
import { z } from 'zod'
import { readJson, writePrivateJson } from '../config/private-file.ts'
import { verifyEd25519 } from '../crypto.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

const head = z.object({ seq: z.int().nonnegative(), hash: z.string() })
const knownServer = z.object({
  serverId: z.string(),
  /** Public keys by key id. */
  keys: z.record(z.string(), z.string()),
  /** When each of them ended that did, by key id. */
  ended: z.record(z.string(), z.string()).default({}),
  /** Public keys by agent id. */
  agents: z.record(z.string(), z.string()),
  /** The newest key seen of the agent of an install, by the install's id and names: what secrets are sealed by. */
  installs: z.record(z.string(), z.string()).default({}),
  /** How far each chain was when it last verified. */
  heads: z.record(z.string(), head),
})
export type KnownServer = z.infer<typeof knownServer>

const knownServers = z.object({ version: z.literal(1), servers: z.record(z.string(), knownServer) })

/** What a file remembers of each server, by address, so that a server cannot rewrite its own past unseen. */
export async function readKnownServers(file: string): Promise<Record<string, KnownServer>> {
  return (await readJson(file, knownServers))?.servers ?? {}
}

/** Two runs at once must not take back what the other saw: heads only grow. */
export async function rememberServer(
  { url, knownFile }: { url: string; knownFile: string },
  seen: KnownServer,
  anew = false,
): Promise<void> {
  const servers = await readKnownServers(knownFile)
  const before = servers[url]
  if (before?.serverId === seen.serverId && !anew) {
    for (const [chain, kept] of Object.entries(before.heads)) {
      if (kept.seq > (seen.heads[chain]?.seq ?? -1)) seen.heads[chain] = kept
    }
    seen.agents = { ...seen.agents, ...before.agents }
    seen.ended = { ...seen.ended, ...before.ended }
    seen.installs = { ...before.installs, ...seen.installs }
  }
  await writePrivateJson(knownFile, { version: 1, servers: { ...servers, [url]: seen } })
}

/** The keys are taken on first use; later ones only when a known one vouches for them. */
export function recogniseServer(
  known: KnownServer | undefined,
  offered: { serverId: string; keys: readonly KeyLink[] },
  { url, nowMs }: { url: string; nowMs: number },
): KnownServer {
  const next = 'ask whoever runs the server; if it was set up anew, add --repin to trust it from now on'
  if (known && known.serverId !== offered.serverId) {
    throw new CliError(
      EXIT.failed,
      `another server answers at ${url} than before: ${offered.serverId}, not ${known.serverId}`,
      { next },
    )
  }
  const before = serverKeys(known ?? { keys: rootKeys(offered.keys), ended: {} })
  // Keys that ended are kept, for what they signed in their time; they vouch for nobody new.
  const pinned = extendPinnedKeys(before.pinned, offered.keys, verifyEd25519, before.ended)
  const { ended } = learnKeys(before, offered.keys, verifyEd25519, nowMs)
  const changed = offered.keys.find((link) => pinned.get(link.keyId) !== link.publicKey)
  if (changed) {
    throw new CliError(
      EXIT.failed,
      `the server shows a key that no known key vouches for: ${changed.keyId}`,
      { next },
    )
  }
  return {
    serverId: offered.serverId,
    keys: Object.fromEntries(pinned),
    ended: Object.fromEntries(ended),
    agents: { ...known?.agents },
    installs: { ...known?.installs },
    heads: { ...known?.heads },
  }
}

export function serverKeys({ keys, ended }: Pick<KnownServer, 'keys' | 'ended'>): KnownKeys {
  return { pinned: new Map(Object.entries(keys)), ended: new Map(Object.entries(ended)) }
}

function rootKeys(keys: readonly KeyLink[]): Record<string, string> {
  return Object.fromEntries(keys.filter((k) => k.signedBy === null).map((k) => [k.keyId, k.publicKey]))
}

export function keptHead(known: KnownServer, chain: string): AuditHead | undefined {
  const kept = Object.hasOwn(known.heads, chain) ? known.heads[chain] : undefined
  return kept && { chain, ...kept }
}
