import { Option, type Command } from '@commander-js/extra-typings'
import { USER_ROLES } from '@tenon/core'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { ago, until } from '../output/words.ts'
import { AFTER, LIMIT, pageQuery, showPage, wholeNumber, type PageOptions } from './paging.ts'
import { OUT, showSecret } from '../output/secret-file.ts'
import { takeId } from './ids.ts'

const DAY = 86_400

export function addTokens(program: Command, cli: Cli): void {
  const tokens = program
    .command('tokens')
    .description('API tokens of people and programs')
    .addHelpText(
      'after',
      examples('tenon tokens list', 'tenon tokens create ci --role operator --service --days 30'),
    )
  tokens
    .command('list')
    .description('list them, without their secrets')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon tokens list', 'tenon tokens list --json'))
    .action((options) => list(cli, options))
  tokens
    .command('create')
    .description('make one; its secret is printed once, alone on stdout')
    .argument('<name>', 'whom or what it is for')
    .addOption(new Option('--role <role>', 'what it may do').choices(USER_ROLES).makeOptionMandatory())
    .option('--days <n>', 'how long it lasts', wholeNumber(1, 366), 90)
    .option('--service', 'for a program, not for a person')
    .option('--for <principal>', 'one more for somebody who has one', takeId('principal'))
    .option('--never-expires', 'let it last until it is revoked')
    .option(...OUT)
    .addHelpText(
      'after',
      examples(
        'tenon tokens create ci --role operator --out ci.token',
        'tenon tokens create anna --role owner --days 365',
        'tenon tokens create laptop --role operator --for prn_01…',
      ),
    )
    .action((name, options) => create(cli, name, options))
  tokens
    .command('revoke')
    .description('end one at once')
    .argument('<token>', 'its id', takeId('token'))
    .addHelpText('after', examples('tenon tokens revoke tok_01…'))
    .action(async (id) => {
      const client = await cli.client()
      const token = await client.call('tokens.revoke', { params: { id } })
      if (cli.globals.json) return cli.out.json(token)
      cli.out.line(`token ${token.id} (${token.name}) is revoked`)
    })
}

interface CreateOptions {
  role: (typeof USER_ROLES)[number]
  days: number
  service?: true | undefined
  for?: string | undefined
  neverExpires?: true | undefined
  out?: string | undefined
}

async function create(cli: Cli, name: string, options: CreateOptions): Promise<void> {
  const client = await cli.client()
  const expiresInSeconds = options.neverExpires ? null : options.days * DAY
  const body = {
    name,
    role: options.role,
    expiresInSeconds,
    // A server of the version before knows neither.
    ...(options.service === true ? { kind: 'service' as const } : {}),
    ...(options.for === undefined ? {} : { principal: options.for }),
  }
  const made = await showSecret(
    cli,
    options.out,
    () => client.call('tokens.create', { body }),
    ({ secret }) => secret,
  )
  if (cli.globals.json) return
  cli.out.note(
    `token ${made.token.id} (${made.token.role}), expires ${made.token.expiresAt ?? 'never'}; keep it now, it is not shown again`,
  )
}

async function list(cli: Cli, options: PageOptions): Promise<void> {
  const client = await cli.client()
  const page = await client.call('tokens.list', { query: pageQuery(options) })
  const now = cli.io.clock.now()
  const status = (t: { revokedAt: string | null; expiresAt: string | null }) => {
    if (t.revokedAt !== null) return 'revoked'
    return t.expiresAt !== null && Date.parse(t.expiresAt) <= now ? 'expired' : 'active'
  }
  showPage(
    cli,
    page,
    [
      { title: 'ID', value: (t) => t.id },
      { title: 'NAME', value: (t) => t.name, shrink: true },
      { title: 'ROLE', value: (t) => t.role },
      { title: 'STATUS', value: status, paint: (text, t) => paintStatus(cli.out.paint, status(t), text) },
      { title: 'EXPIRES', value: (t) => until(t.expiresAt, now) },
      { title: 'LAST USED', value: (t) => ago(t.lastUsedAt, now) },
      {
        title: 'OWNER',
        value: (t) => t.principal && `${t.principal.kind} ${t.principal.name}`,
        shrink: true,
      },
      { title: 'PRINCIPAL', value: (t) => t.principal?.id },
    ],
    'no tokens',
  )
}
