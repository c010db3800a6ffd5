import { extendPinnedKeys, type AuditHead, type KeyLink } from '@tenon/core'
import { z } from 'zod'
import { readJson, writePrivateJson } from '../config/private-file.ts'
import { verifyEd25519 } from '../crypto.ts'
import { CliError } from '../errors.ts'
import { EXIT } from '../exit-codes.ts'

const head = z.object({ seq: z.int().nonnegative(), hash: z.string() })
const knownServer = z.strictObject({
  serverId: z.string(),
  /** Public keys by key id. */
  keys: z.record(z.string(), z.string()),
  /** Public keys by agent id. */
  agents: z.record(z.string(), z.string()),
  /** The newest key seen of the agent of an install, by the install's id and names: what secrets are sealed by. */
  installs: z.record(z.string(), z.string()).default({}),
  /** How far each chain was when it last verified. */
  heads: z.record(z.string(), head),
})
export type KnownServer = z.infer<typeof knownServer>

const knownServers = z.strictObject({ version: z.literal(1), servers: z.record(z.string(), knownServer) })

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
    seen.installs = { ...before.installs, ...seen.installs }
  }
  await writePrivateJson(knownFile, { version: 1, servers: { ...servers, [url]: seen } })
}

/** The keys are taken on first use; later ones only when a known one vouches for them. */
export function recogniseServer(
  known: KnownServer | undefined,
  offered: { serverId: string; keys: readonly KeyLink[] },
  url: string,
): KnownServer {
  const next = 'ask whoever runs the server; if it was set up anew, add --repin to trust it from now on'
  if (known && known.serverId !== offered.serverId) {
    throw new CliError(
      EXIT.failed,
      `another server answers at ${url} than before: ${offered.serverId}, not ${known.serverId}`,
      { next },
    )
  }
  const pinned = new Map(Object.entries(known?.keys ?? rootKeys(offered.keys)))
  const trusted = extendPinnedKeys(pinned, offered.keys, verifyEd25519)
  const changed = offered.keys.find((link) => trusted.get(link.keyId) !== link.publicKey)
  if (changed) {
    throw new CliError(
      EXIT.failed,
      `the server shows a key that no known key vouches for: ${changed.keyId}`,
      { next },
    )
  }
  return {
    serverId: offered.serverId,
    keys: Object.fromEntries(trusted),
    agents: { ...known?.agents },
    installs: { ...known?.installs },
    heads: { ...known?.heads },
  }
}

function rootKeys(keys: readonly KeyLink[]): Record<string, string> {
  return Object.fromEntries(keys.filter((k) => k.signedBy === null).map((k) => [k.keyId, k.publicKey]))
}

export function keptHead(known: KnownServer, chain: string): AuditHead | undefined {
  const kept = Object.hasOwn(known.heads, chain) ? known.heads[chain] : undefined
  return kept && { chain, ...kept }
}
