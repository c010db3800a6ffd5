import { createClient, routes, type Client } from '@tenon/protocol'
import { resolveConnection, type Connection } from './config/resolve.ts'
import { EXIT } from './exit-codes.ts'
import type { Io } from './io.ts'
import { createOutput, type Output } from './output/output.ts'
import { withProgress } from './output/progress.ts'

/** What every command is given. */
export interface Cli {
  io: Io
  out: Output
  globals: { json: boolean; context: string | undefined }
  /** Aborts when the reader of stdout has gone. */
  closed: AbortSignal
  connection(): Promise<Connection>
  client(): Promise<Client>
  /** What the program ends with when the command itself ends well: the thing it followed may have failed. */
  exitCode: number
}

export function createCli(io: Io, closed: AbortSignal): Cli {
  const cli: Cli = {
    io,
    out: createOutput(io),
    globals: { json: false, context: undefined },
    closed,
    exitCode: EXIT.ok,
    connection: () => resolveConnection(io, cli.globals.context),
    client: async () => clientFor(io, await cli.connection()),
  }
  return cli
}

/** The API's client, which says so when an answer takes long. */
export function clientFor(io: Io, connection: Pick<Connection, 'url' | 'token'>): Client {
  const client = createClient({ ...connection, fetch: io.fetch })
  return {
    call: (name, input, options) => {
      const answer = client.call(name, input, options)
      // Whoever sends a source says so itself, with its name and size.
      if (routes[name].body === 'bytes') return answer
      return withProgress(io, () => `waiting for ${connection.url} (${name})`, answer)
    },
  }
}
