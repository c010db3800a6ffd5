import type { Command } from '@commander-js/extra-typings'
import { parseEntry, type AuditEntry, type SealedEntry } from '@tenon/core'
import { chainId } from '../audit/chain-id.ts'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { exportAudit } from './audit-export.ts'
import { verifyAudit } from './audit-verify.ts'
import { wholeNumber } from './paging.ts'

export function addAudit(program: Command, cli: Cli): void {
  const audit = program
    .command('audit')
    .description('the record of every change, and the proof that nobody altered it')
    .addHelpText(
      'after',
      examples('tenon audit list acme', 'tenon audit verify', 'tenon audit export > audit.jsonl'),
    )
  audit
    .command('list')
    .description('entries of one chain; without a chain, the chains')
    .argument('[chain]', '`server`, or an install’s name or id')
    .option('--limit <n>', 'how many entries, the newest ones', wholeNumber(1, 1000), 50)
    .addHelpText(
      'after',
      examples('tenon audit list', 'tenon audit list server', 'tenon audit list acme --limit 200'),
    )
    .action((chain, options) =>
      chain === undefined ? listChains(cli) : listEntries(cli, chain, options.limit),
    )
  audit
    .command('verify')
    .description(
      'check chains here, with keys this machine keeps: nothing changed, removed, reordered or cut off',
    )
    .argument('[chain]', '`server`, or an install’s name or id; all chains otherwise')
    .option('--all', 'every chain, also those seen before and gone now')
    .option('--file <export>', 'check an export instead of asking the server')
    .option('--repin', 'trust the server’s present keys from now on, and forget what was seen before')
    .addHelpText(
      'after',
      examples('tenon audit verify', 'tenon audit verify acme', 'tenon audit verify --file audit.jsonl'),
    )
    .action((chain, options) => verifyAudit(cli, chain, options))
  audit
    .command('export')
    .description(
      'whole chains with their signed heads and keys as JSON lines, for keeping and checking elsewhere',
    )
    .argument('[chain]', '`server`, or an install’s name or id; all chains otherwise')
    .addHelpText(
      'after',
      examples('tenon audit export > audit.jsonl', 'tenon audit export acme > acme.jsonl'),
    )
    .action((chain) => exportAudit(cli, chain))
}

async function listChains(cli: Cli): Promise<void> {
  const client = await cli.client()
  const audit = await client.call('audit.chains', {})
  if (cli.globals.json) return cli.out.json(audit)
  cli.out.table(
    [
      { title: 'CHAIN', value: (c) => c.chain },
      { title: 'ENTRIES', value: (c) => c.seq },
      { title: 'HEAD', value: (c) => c.hash.slice(0, 16) },
      { title: 'SIGNED', value: (c) => c.at },
      { title: 'KEY', value: (c) => c.keyId },
    ],
    audit.chains,
    'no chains',
  )
}

async function listEntries(cli: Cli, given: string, limit: number): Promise<void> {
  const client = await cli.client()
  const chain = await chainId(client, given)
  const { head } = await client.call('audit.entries', { params: { chain }, query: { afterSeq: 0, limit: 1 } })
  const query = { afterSeq: Math.max(0, head.seq - limit), limit }
  const page = await client.call('audit.entries', { params: { chain }, query })
  if (cli.globals.json) return cli.out.json(page)
  cli.out.table(
    [
      { title: 'SEQ', value: (e) => e.seq },
      { title: 'AT', value: (e) => e.entry?.at },
      { title: 'WHO', value: (e) => e.entry && whoDid(e.entry.actor, page.names), shrink: true },
      { title: 'ACTION', value: (e) => e.entry?.action },
      { title: 'ON', value: (e) => e.entry && `${e.entry.subject.type} ${e.entry.subject.id}`, shrink: true },
      {
        title: 'OUTCOME',
        value: (e) => e.entry?.outcome ?? 'malformed',
        paint: (text, e) => paintStatus(cli.out.paint, e.entry?.outcome ?? 'failed', text),
      },
    ],
    page.entries.map(readable),
    'no entries',
  )
}

/** Names are not unique: the id stays beside them. */
function whoDid({ type, id }: AuditEntry['actor'], names: Record<string, string>): string {
  const name = Object.hasOwn(names, id) ? `${names[id]} ` : ''
  return `${type} ${name}${id}`
}

function readable(sealed: SealedEntry) {
  const entry = parseEntry(sealed.body)
  const whole = entry && typeof entry.actor === 'object' && typeof entry.subject === 'object'
  return { seq: sealed.seq, entry: whole ? entry : undefined }
}
