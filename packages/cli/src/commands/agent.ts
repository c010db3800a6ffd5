import { Option, type Command } from '@commander-js/extra-typings'
import type { Cli } from '../cli.ts'
import { examples } from '../help-text.ts'
import { paintStatus } from '../output/paint.ts'
import { ago } from '../output/words.ts'
import { spawnBundle } from '../spawn-bundle.ts'
import { AFTER, LIMIT, pageQuery, showPage, wholeNumber, type PageOptions } from './paging.ts'
import { OUT, showSecret } from '../output/secret-file.ts'
import { takeId } from './ids.ts'

export function addAgent(program: Command, cli: Cli): void {
  const agent = program
    .command('agent')
    .description('run an agent here (other arguments are its own), or manage agents')
    .argument('[args...]', 'the agent’s own arguments')
    .allowUnknownOption()
    .addHelpText(
      'after',
      examples(
        'tenon agent join-token --role build > join.token',
        'tenon agent start --server https://tenon.example.com --dir ./agent --join-token-file join.token',
        'tenon agent status --dir ./agent',
        'tenon agent list',
      ),
    )
    .action(async (args) => {
      cli.exitCode = await spawnBundle(cli.io, 'agent', args[0] === 'start' ? args.slice(1) : args)
    })
  for (const own of OWN_COMMANDS) addOwn(agent as unknown as Command, cli, own)
  agent
    .command('join-token')
    .description('a one-time token for a new build or setup agent, alone on stdout')
    .addOption(
      new Option('--role <role>', 'what the agent is for').choices(['build', 'setup']).makeOptionMandatory(),
    )
    .option('--minutes <n>', 'how long it can be used', wholeNumber(1, 10_080), 60)
    .option(...OUT)
    .addHelpText('after', examples('tenon agent join-token --role build --out join.token'))
    .action(async (options) => {
      const client = await cli.client()
      const body = { role: options.role, expiresInSeconds: options.minutes * 60 } as const
      const made = await showSecret(
        cli,
        options.out,
        () => client.call('agents.joinToken', { body }),
        ({ joinToken }) => joinToken,
      )
      if (!cli.globals.json) cli.out.note(`it works once, until ${made.expiresAt}`)
    })
  agent
    .command('list')
    .description('list agents and their connection')
    .option(...LIMIT)
    .option(...AFTER)
    .addHelpText('after', examples('tenon agent list', 'tenon agent list --json'))
    .action((options) => list(cli, options))
  agent
    .command('revoke')
    .description('end an agent’s identity at once')
    .argument('<agent>', 'its id', takeId('agent'))
    .addHelpText('after', examples('tenon agent revoke agt_01…'))
    .action(async (id) => {
      const client = await cli.client()
      const revoked = await client.call('agents.revoke', { params: { id } })
      if (cli.globals.json) return cli.out.json(revoked)
      cli.out.line(`agent ${revoked.id} (${revoked.role} on ${revoked.hostname}) is revoked`)
    })
}

interface OwnCommand {
  name: string
  description: string
  usage: string
  examples: string[]
}

/** Done by the agent's own program, on its folder: no server is asked. */
const OWN_COMMANDS: readonly OwnCommand[] = [
  {
    name: 'status',
    description: 'what the agent of a folder is and does, running or stopped',
    usage: '--dir DIR [--json]',
    examples: ['tenon agent status --dir ./agent'],
  },
  {
    name: 'pause',
    description: 'let the agent of a folder take no new jobs',
    usage: '--dir DIR',
    examples: ['tenon agent pause --dir ./agent'],
  },
  {
    name: 'resume',
    description: 'let the agent of a folder take new jobs again',
    usage: '--dir DIR',
    examples: ['tenon agent resume --dir ./agent'],
  },
  {
    name: 'release',
    description: 'let a new agent take the place of the agent of a folder',
    usage: '--dir DIR',
    examples: ['tenon agent release --dir ./agent'],
  },
  {
    name: 'rotate-key',
    description: 'change the own key of the agent of a folder',
    usage: '--dir DIR',
    examples: ['tenon agent rotate-key --dir ./agent'],
  },
  {
    name: 'jobs',
    description: 'stop a job on the customer’s side',
    usage: 'stop JOB --dir DIR',
    examples: ['tenon agent jobs stop job_01… --dir ./agent'],
  },
  {
    name: 'secret',
    description: 'set a secret of the install here, past the server, or list their names',
    usage: 'set NAME --dir DIR [--file FILE] | list --dir DIR',
    examples: [
      'pass show acme/api-key | tenon agent secret set api-key --dir ./agent',
      'tenon agent secret list --dir ./agent',
    ],
  },
  {
    name: 'keygen',
    description: 'make an age identity for exports; its recipient goes to stdout',
    usage: '--out FILE',
    examples: ['tenon agent keygen --out customer.key'],
  },
  {
    name: 'export',
    description: 'write the whole install store, encrypted to the customer',
    usage: '--dir DIR --to RECIPIENT [--to RECIPIENT] [--out FILE]',
    examples: ['tenon agent export --dir ./agent --to age1… > store.age'],
  },
  {
    name: 'restore',
    description: 'fill a new folder from an export, before its agent’s first start',
    usage: '--dir DIR --from FILE --identity-file FILE',
    examples: ['tenon agent restore --dir ./agent --from store.age --identity-file customer.key'],
  },
]

function addOwn(agent: Command, cli: Cli, own: OwnCommand): void {
  agent
    .command(own.name)
    .description(own.description)
    .usage(own.usage)
    .argument('[args...]', 'the agent’s own arguments')
    .allowUnknownOption()
    .addHelpText('after', examples(...own.examples))
    .action(async (args) => {
      const json = cli.globals.json ? ['--json'] : []
      cli.exitCode = await spawnBundle(cli.io, 'agent', [own.name, ...args, ...json])
    })
}

async function list(cli: Cli, options: PageOptions): Promise<void> {
  const client = await cli.client()
  const page = await client.call('agents.list', { query: pageQuery(options) })
  const now = cli.io.clock.now()
  showPage(
    cli,
    page,
    [
      { title: 'ID', value: (a) => a.id },
      { title: 'ROLE', value: (a) => a.role },
      {
        title: 'STATUS',
        value: stateWord,
        paint: (text, a) => paintStatus(cli.out.paint, stateWord(a), text),
      },
      { title: 'SEEN', value: (a) => ago(a.lastSeenAt, now) },
      { title: 'JOBS', value: (a) => `${a.running}/${a.slots}` },
      { title: 'RUNTIME', value: (a) => a.runtime?.name },
      { title: 'VERSION', value: (a) => a.version },
      { title: 'INSTALL', value: (a) => a.install ?? a.installId },
      { title: 'HOST', value: (a) => a.hostname, shrink: true },
    ],
    'no agents yet; next: tenon agent join-token --role build',
  )
}

function stateWord(agent: { status: string; connected: boolean }): string {
  if (agent.status !== 'enrolled') return agent.status
  return agent.connected ? 'connected' : 'away'
}
