import type { CallOutput, Client } from '@tenon/protocol'
import type { Cli } from '../cli.ts'
import { readKnownServers, recogniseServer, rememberServer, type KnownServer } from './known-servers.ts'

export interface Recognised {
  url: string
  info: CallOutput<'server.info'>
  known: KnownServer
}

/** Asks the server who it is and holds the answer against what this machine remembers of it. */
export async function recognise(cli: Cli, client: Client, repin = false): Promise<Recognised> {
  const { url } = await cli.connection()
  const info = await client.call('server.info', {})
  const before = repin ? undefined : (await readKnownServers(cli.io))[url]
  const known = recogniseServer(before, info, url)
  if (before === undefined) {
    cli.out.note(`trusting the keys of ${url} from now on (fingerprint ${info.fingerprint})`)
    await rememberServer(cli.io, url, known, repin)
  }
  return { url, info, known }
}
