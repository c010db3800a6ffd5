import { chainId } from '../audit/chain-id.ts'
import type { ExportHeader } from '../audit/export.ts'
import { readChain } from '../audit/read-chain.ts'
import type { Cli } from '../cli.ts'

/** JSON lines on stdout: header, then heads and entries. What it prints is not judged here; `audit verify --file` does. */
export async function exportAudit(cli: Cli, given: string | undefined): Promise<void> {
  const { out } = cli
  const client = await cli.client()
  const { serverId, keys } = await client.call('server.info', {})
  const { chains, agents } = await client.call('audit.chains', {})
  const wanted = given === undefined ? chains.map((c) => c.chain) : [await chainId(client, given)]
  const header: ExportHeader = { format: 'tenon-audit-export/1', serverId, keys, agents }
  await out.raw(`${JSON.stringify(header)}\n`)
  let count = 0
  for (const chain of wanted) {
    for await (const { entries, head } of readChain(client, chain)) {
      await out.raw(`${JSON.stringify({ head })}\n`)
      for (const entry of entries) await out.raw(`${JSON.stringify({ chain, entry })}\n`)
      count += entries.length
      if (cli.closed.aborted) return
    }
  }
  out.note(`${count} entries of ${wanted.length} chains`)
}
