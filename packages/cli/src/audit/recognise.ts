import type { CallOutput, Client } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { readKnownServers, recogniseServer, rememberServer, type KnownServer } from './known-servers.ts'

export interface Recognised {
  url: string
  knownFile: string
  info: CallOutput<'server.info'>
  known: KnownServer
}

/** Asks the server who it is and holds the answer against what this machine remembers of it. */
export async function recognise(cli: Cli, client: Client, repin = false): Promise<Recognised> {
  const { url, knownFile } = await cli.connection()
  const info = await client.call('server.info', {})
  const servers = repin ? {} : await readKnownServers(knownFile)
  // A server that moved to another address is still held to its own past.
  const before = servers[url] ?? Object.values(servers).find((known) => known.serverId === info.serverId)
  const known = recogniseServer(before, info, { url, nowMs: cli.io.clock.now() })
  if (before === undefined) {
    cli.out.note(`trusting the keys of ${url} from now on (fingerprint ${info.fingerprint})`)
    await rememberServer({ url, knownFile }, known, repin)
  }
  return { url, knownFile, info, known }
}
